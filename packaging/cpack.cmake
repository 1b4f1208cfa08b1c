# `cpack -G TGZ` in a build: an archive of what `cmake --install` lays down, to unpack anywhere.
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME ukmem)
set(CPACK_PACKAGE_VENDOR "The ukmem authors")
set(CPACK_PACKAGE_FILE_NAME ukmem-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
# A build is packed as it is. The build's own rule would look for changed sources first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
# Debug information would make it ten times as large.
set(CPACK_STRIP_FILES ON)
include(CPack)
