# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# cmake -D COMPILE_COMMANDS=<json> -D CONTROL=<source in it> -D SOURCE=<source to compile instead>
#       -D LAUNCHER=<what goes before the compiler> -D FLAG=<one more flag>
#       -D EXPECTED=<text; empty: SOURCE must compile> -P compile.cmake

cmake_minimum_required(VERSION 3.22)

# Sets <result> to the compile command of CONTROL, as one string.
function(find_compile_command result)
  file(READ ${COMPILE_COMMANDS} entries)
  string(JSON count LENGTH "${entries}")
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON file GET "${entries}" ${i} file)
    if(file STREQUAL CONTROL)
      string(JSON command GET "${entries}" ${i} command)
      set(${result} "${command}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "${COMPILE_COMMANDS} has no entry for ${CONTROL}")
endfunction()

find_compile_command(command)
string(REPLACE "${CONTROL}" "${SOURCE}" command "${LAUNCHER} ${command} ${FLAG}")
separate_arguments(command UNIX_COMMAND "${command}")
list(FIND command -o output)
math(EXPR output "${output} + 1")
list(REMOVE_AT command ${output})
list(INSERT command ${output} ${SOURCE}.o)

execute_process(
  COMMAND ${command}
  RESULT_VARIABLE status
  OUTPUT_VARIABLE text
  ERROR_VARIABLE text)

# Not part of the errors below, whose lines CMake would break.
message("${text}")

if(EXPECTED STREQUAL "")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the valid calls do not compile")
  endif()
  return()
endif()

if(status EQUAL 0)
  message(FATAL_ERROR "the call compiles")
endif()
string(FIND "${text}" "${EXPECTED}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "the compiler does not say '${EXPECTED}'")
endif()
# A diagnostic copied from another function or argument misleads more than it helps. Only functions
# that call others may repeat theirs.
string(REGEX MATCH "^KokkosXent::[A-Za-z]+::[a-z_]+: [a-z_]+ " function_and_argument "${EXPECTED}")
if(function_and_argument)
  string(REPLACE "${function_and_argument}" "" others "${text}")
  string(REGEX MATCH "KokkosXent::[A-Za-z_:]+: [A-Za-z_]+ must [^\n]*" other "${others}")
  if(NOT other STREQUAL "")
    message(FATAL_ERROR "besides '${EXPECTED}' the compiler says '${other}'")
  endif()
endif()
