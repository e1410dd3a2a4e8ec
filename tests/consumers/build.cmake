# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Run by ctest as add_consumer_test in CMakeLists.txt says.

cmake_minimum_required(VERSION 3.22)

file(REMOVE_RECURSE ${BINARY})
execute_process(
  COMMAND ${CMAKE_COMMAND} -C ${CACHE} -G ${GENERATOR} ${OPTIONS} -S ${SOURCE} -B ${BINARY}
  RESULT_VARIABLE status
  OUTPUT_VARIABLE text
  ERROR_VARIABLE text ECHO_OUTPUT_VARIABLE ECHO_ERROR_VARIABLE)

# CMake breaks the lines of its messages.
string(REGEX REPLACE "[ \n]+" " " text "${text}")
if(NOT text MATCHES "${SAYS}")
  message(FATAL_ERROR "the configuration does not say '${SAYS}'")
endif()
if(MUST_FAIL)
  if(status EQUAL 0)
    message(FATAL_ERROR "the configuration succeeds")
  endif()
  return()
endif()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the configuration fails")
endif()
if(CONFIGURE_ONLY)
  return()
endif()

execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY} --config "${CONFIG}"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${BINARY} --output-on-failure
                        --no-tests=error -C "${CONFIG}" COMMAND_ERROR_IS_FATAL ANY)

if(INSTALLS_NOTHING)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BINARY} --prefix ${BINARY}/prefix
                          COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB_RECURSE installed ${BINARY}/prefix/*)
  if(installed)
    message(FATAL_ERROR "installed without being asked: ${installed}")
  endif()
endif()
