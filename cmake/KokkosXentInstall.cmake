# SPDX-FileCopyrightText: The KokkosXent authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# A folder of its own keeps src/impl/ apart from other libraries' impl/ in a shared prefix.
set(KokkosXent_INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR}/KokkosXent)
set(KokkosXent_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/KokkosXent)

target_include_directories(KokkosXent_xent INTERFACE $<INSTALL_INTERFACE:${KokkosXent_INCLUDE_DIR}>)

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/KokkosXentConfig.cmake.in
  ${PROJECT_BINARY_DIR}/KokkosXentConfig.cmake
  INSTALL_DESTINATION ${KokkosXent_PACKAGE_DIR}
  NO_SET_AND_CHECK_MACRO)

# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/KokkosXentConfigVersion.cmake
  COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT)

install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/src/
  DESTINATION ${KokkosXent_INCLUDE_DIR}
  FILES_MATCHING
  PATTERN *.hpp)
if(KokkosXent_ENABLE_EXAMPLES)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/
          DESTINATION ${CMAKE_INSTALL_DATADIR}/KokkosXent/examples)
endif()
install(TARGETS KokkosXent_xent EXPORT KokkosXentTargets)
install(
  EXPORT KokkosXentTargets
  NAMESPACE KokkosXent::
  DESTINATION ${KokkosXent_PACKAGE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/KokkosXentConfig.cmake
              ${PROJECT_BINARY_DIR}/KokkosXentConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/KokkosXentCheckCuda.cmake
        DESTINATION ${KokkosXent_PACKAGE_DIR})
