# Installs what the binary prints about itself, `outrider man` and `outrider completion`, and the
# changelog in the form that Debian wants.
#
# Runs at install time, after the binary is in its place. A binary without one of the commands (it
# answers with an exit code) is installed without that file; tests/integration/test_packaging.py
# compares what the binary knows with what the package holds.
function(install_output destination)
  execute_process(COMMAND "$ENV{DESTDIR}${OUTRIDER_RUN}" ${ARGN} OUTPUT_VARIABLE text ERROR_QUIET
                  RESULT_VARIABLE failed)
  if(failed OR text STREQUAL "")
    message(STATUS "This binary has no \"${ARGN}\"")
    return()
  endif()
  set(path "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${OUTRIDER_DATA}/${destination}")
  message(STATUS "Installing: ${path}")
  file(WRITE "${path}" "${text}")
  file(CHMOD "${path}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endfunction()

install_output(man/man1/outrider.1 man)
install_output(bash-completion/completions/outrider completion bash)
install_output(zsh/vendor-completions/_outrider completion zsh)
install_output(fish/vendor_completions.d/outrider.fish completion fish)

execute_process(COMMAND gzip -9nc "${OUTRIDER_CHANGELOG}" COMMAND_ERROR_IS_FATAL ANY
                OUTPUT_FILE "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${OUTRIDER_DATA}/doc/outrider/changelog.gz")
