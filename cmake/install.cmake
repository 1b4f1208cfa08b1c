# `cmake --install` lays down headers, libraries, the malloc drop-in, the tool, the gdb script, the
# licence, ukmem.pc and the CMake package. A program preloads the drop-in, or names it to its linker
# (-lukmem-malloc), so neither ukmem.pc nor the CMake package knows it.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ukmem
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS ukmem ukmem_compat EXPORT ukmemTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Some distributions have the archive in a package of its own, or in none. A file of targets stops with an
# error if one of its files is missing, so the archive has a file to itself: ukmemConfig.cmake.in.
install(TARGETS ukmem_static EXPORT ukmemStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/ukmem)
install(TARGETS ukmem_malloc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ukmem_tool)
  install(TARGETS ukmem_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSES.third-party DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/ukmem)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/grafana/ukmem.json
    DESTINATION ${CMAKE_INSTALL_DATADIR}/ukmem/grafana)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/completion/ukmem.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ukmem)
endif()

set_target_properties(ukmem_static PROPERTIES EXPORT_NAME static)
set_target_properties(ukmem_compat PROPERTIES EXPORT_NAME compat)
set(ukmem_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ukmem)
install(EXPORT ukmemTargets NAMESPACE ukmem:: DESTINATION ${ukmem_package_dir})
install(EXPORT ukmemStaticTargets NAMESPACE ukmem:: DESTINATION ${ukmem_package_dir})
set(ukmem_archive ${CMAKE_INSTALL_LIBDIR}/${CMAKE_STATIC_LIBRARY_PREFIX}ukmem${CMAKE_STATIC_LIBRARY_SUFFIX})
configure_package_config_file(cmake/ukmemConfig.cmake.in ${PROJECT_BINARY_DIR}/ukmemConfig.cmake
  INSTALL_DESTINATION ${ukmem_package_dir} PATH_VARS ukmem_archive
  NO_SET_AND_CHECK_MACRO)
# CMake's own file for SameMinorVersion refuses every range that goes beyond this minor version.
configure_file(cmake/ukmemConfigVersion.cmake.in ${PROJECT_BINARY_DIR}/ukmemConfigVersion.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ukmemConfig.cmake ${PROJECT_BINARY_DIR}/ukmemConfigVersion.cmake
  DESTINATION ${ukmem_package_dir})

foreach(dir LIBDIR INCLUDEDIR)
  set(ukmem_pc_${dir} ${CMAKE_INSTALL_${dir}})
  if(NOT IS_ABSOLUTE ${ukmem_pc_${dir}})
    set(ukmem_pc_${dir} "\${prefix}/${ukmem_pc_${dir}}")
  endif()
endforeach()
set(ukmem_pc_atomic)
if(NOT UKMEM_COMPILER_HAS_SMALL_ATOMICS)
  set(ukmem_pc_atomic " -latomic")
endif()
# The prefix is found from where ukmem.pc lies, so that a prefix given to
# `cmake --install` or a moved tree works.
set(ukmem_pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH ukmem_pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" ukmem_pc_up "${ukmem_pc_up}")
  set(ukmem_pc_prefix "\${pcfiledir}/${ukmem_pc_up}")
endif()
configure_file(cmake/ukmem.pc.in ${PROJECT_BINARY_DIR}/ukmem.pc @ONLY)
# In the system's own prefix pkg-config must see that the folders are the compiler's: given to it as
# -isystem, as CMake does with what pkg-config says, they would hide C's headers from C++'s.
set(ukmem_pc_prefix /usr)
configure_file(cmake/ukmem.pc.in ${PROJECT_BINARY_DIR}/usr/ukmem.pc @ONLY)

# gdb loads PREFIX/share/gdb/auto-load/PATH-gdb.py with the library of that path. An archive is unpacked
# anywhere, so it has no such path.
install(FILES ${PROJECT_SOURCE_DIR}/tools/gdb/ukmem.py DESTINATION ${CMAKE_INSTALL_DATADIR}/ukmem)
install(CODE "
  set(loader \"${PROJECT_SOURCE_DIR}/tools/gdb/auto-load.py\")
  set(names \"$<TARGET_FILE_NAME:ukmem>\" \"$<TARGET_FILE_NAME:ukmem_malloc>\")
  if(CMAKE_INSTALL_PREFIX MATCHES \"/_CPack_Packages/\")
    set(names)
  endif()
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  get_filename_component(libdir \"${CMAKE_INSTALL_LIBDIR}\" ABSOLUTE BASE_DIR \"\${prefix}\")
  get_filename_component(datadir \"${CMAKE_INSTALL_DATADIR}\" ABSOLUTE BASE_DIR \"\${prefix}\")
  set(pc \"${PROJECT_BINARY_DIR}/ukmem.pc\")
  if(prefix STREQUAL \"/usr\")
    set(pc \"${PROJECT_BINARY_DIR}/usr/ukmem.pc\")
  endif()
  file(INSTALL DESTINATION \"\${libdir}/pkgconfig\" TYPE FILE FILES \"\${pc}\")
  foreach(name IN LISTS names)
    file(INSTALL DESTINATION \"\${datadir}/gdb/auto-load\${libdir}\" TYPE FILE
      RENAME \"\${name}-gdb.py\" FILES \"\${loader}\")
  endforeach()")
