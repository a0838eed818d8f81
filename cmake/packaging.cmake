# What is installed, and the .deb that CPack makes of it (`./dev package`, packaging/build-deb.sh).
#
# Used by the root CMakeLists.txt, with the binary of that build, and by packaging/CMakeLists.txt,
# with a binary that is there already (OUTRIDER_PROGRAM, OUTRIDER_ROOT). Files below /etc and
# /usr/lib/systemd are for a package: a plain `cmake --install` leaves them out.
include(GNUInstallDirs)
if(NOT OUTRIDER_PROGRAM)
  # The root build.
  set(OUTRIDER_ROOT ${CMAKE_SOURCE_DIR})
  set(OUTRIDER_PROGRAM $<TARGET_FILE:outrider>)
  include(${OUTRIDER_ROOT}/cmake/version.cmake)
  outrider_version(${OUTRIDER_ROOT})
endif()

set(doc ${CMAKE_INSTALL_DATADIR}/doc/outrider)
install(PROGRAMS ${OUTRIDER_PROGRAM} DESTINATION bin RENAME outrider COMPONENT program)
install(DIRECTORY ${OUTRIDER_ROOT}/sql/ DESTINATION ${CMAKE_INSTALL_DATADIR}/outrider/sql
        COMPONENT program FILES_MATCHING PATTERN "*.sql")
install(DIRECTORY ${OUTRIDER_ROOT}/monitoring/ DESTINATION ${CMAKE_INSTALL_DATADIR}/outrider/monitoring
        COMPONENT program FILES_MATCHING PATTERN "outrider*.yaml" PATTERN "outrider.json")
install(DIRECTORY ${OUTRIDER_ROOT}/docs/ DESTINATION ${doc} COMPONENT program
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "adr" EXCLUDE)
install(FILES ${OUTRIDER_ROOT}/README.md DESTINATION ${doc} COMPONENT program)
install(FILES ${OUTRIDER_ROOT}/LICENSE DESTINATION ${doc} COMPONENT program)
install(FILES ${OUTRIDER_ROOT}/packaging/debian/copyright DESTINATION ${doc} COMPONENT program)

# What the binary says about itself: the man page and the completion of bash.
install(CODE "set(OUTRIDER_RUN \"\${CMAKE_INSTALL_PREFIX}/bin/outrider\")" COMPONENT program)
install(CODE "set(OUTRIDER_DATA \"${CMAKE_INSTALL_DATADIR}\")" COMPONENT program)
install(CODE "set(OUTRIDER_CHANGELOG \"${OUTRIDER_ROOT}/docs/CHANGELOG.md\")" COMPONENT program)
install(SCRIPT ${OUTRIDER_ROOT}/packaging/install-generated.cmake COMPONENT program)

if(NOT OUTRIDER_PACKAGE)
  set(outside EXCLUDE_FROM_ALL)
endif()
install(FILES ${OUTRIDER_ROOT}/packaging/systemd/outrider@.service
        DESTINATION /usr/lib/systemd/system COMPONENT service ${outside})
install(FILES ${OUTRIDER_ROOT}/packaging/example.yaml DESTINATION /etc/outrider COMPONENT service
        PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ ${outside})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME outrider)
set(CPACK_PACKAGE_VERSION ${OUTRIDER_DEB_VERSION})
set(CPACK_PACKAGE_CONTACT "The Outrider maintainers <maintainers@outrider.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)
set(CPACK_COMPONENTS_ALL program service)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "relay of a PostgreSQL outbox table to Kafka
Outrider reads PostgreSQL's write-ahead log through a logical replication slot
and sends each committed row of an outbox table to a Kafka topic, in commit
order, at least once or exactly once. A systemd unit runs one relay for each
configuration in /etc/outrider.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "postgresql-client, prometheus")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
foreach(script conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${OUTRIDER_ROOT}/packaging/debian/${script})
endforeach()
include(CPack)
