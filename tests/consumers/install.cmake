# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# cmake -D BINARY=<build folder> -D PREFIX=<where to> -P install.cmake

# Headers of an earlier installation could hide one that is missing now.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BINARY} --prefix ${PREFIX}
                COMMAND_ERROR_IS_FATAL ANY)
