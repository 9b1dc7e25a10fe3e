# Installs the static library, its headers and a package file, so that find_package(isobit) gives isobit::isobit.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/isobit)
install(TARGETS isobit EXPORT isobitTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/isobit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT isobitTargets NAMESPACE isobit:: DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/isobitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/isobitConfigVersion.cmake cmake/isobitConfig.cmake DESTINATION ${config_dir})
