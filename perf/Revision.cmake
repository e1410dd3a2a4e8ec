# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Script mode: writes HEADER with the revision of SOURCE_DIR, or with REVISION where that is given.
# Leaves the header alone where nothing changed, so that nothing is compiled again.

if(NOT REVISION)
  set(REVISION unknown)
  find_program(GIT git)
  if(GIT)
    execute_process(
      COMMAND ${GIT} -C ${SOURCE_DIR} describe --always --dirty --abbrev=40 --exclude=*
      RESULT_VARIABLE result
      OUTPUT_VARIABLE described
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(result EQUAL 0)
      set(REVISION ${described})
    endif()
  endif()
endif()

set(text
    "// Written by perf/Revision.cmake\n#pragma once\n\nnamespace KokkosXent::Perf::Config {\ninline constexpr const char* revision = \"${REVISION}\";\n}\n"
)
set(old_text)
if(EXISTS ${HEADER})
  file(READ ${HEADER} old_text)
endif()
if(NOT text STREQUAL old_text)
  file(WRITE ${HEADER} "${text}")
endif()
