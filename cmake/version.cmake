# outrider_version(<source dir>): what `outrider --version` and the package say, by git.
#
# Sets OUTRIDER_VERSION (a tag v1.2.3 is "1.2.3", five commits later "1.2.3-5-gabcdef0", before any
# tag "0.1.0-abcdef0") and OUTRIDER_DEB_VERSION, which sorts as the history does: 1.2.3 <
# 1.2.3+5.gabcdef0 < 1.2.4, and 0.1.0~412.gabcdef0 (412 commits) < 0.1.0. Without git both come from
# the file VERSION that a source archive has, or say "unknown".
set(OUTRIDER_VERSION_NEXT "0.1.0")

function(outrider_git result directory)
  execute_process(COMMAND git -C ${directory} ${ARGN} OUTPUT_VARIABLE text ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    set(text "")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# 1.2.3-5-gabc as Debian sorts it.
function(outrider_deb_version result version)
  if(version MATCHES "^([0-9.]+)-(.*)$")
    set(version "${CMAKE_MATCH_1}+${CMAKE_MATCH_2}")
  endif()
  string(REPLACE "-" "." version "${version}")
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

function(outrider_version directory)
  set(version "${OUTRIDER_VERSION_NEXT}-unknown")
  set(deb "${OUTRIDER_VERSION_NEXT}~unknown")
  if(EXISTS ${directory}/VERSION)
    file(STRINGS ${directory}/VERSION version LIMIT_COUNT 1)
    outrider_deb_version(deb "${version}")
  else()
    outrider_git(described ${directory} describe --tags --always --dirty --match "v[0-9]*")
    if(described MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)(-.*)?$")
      set(version "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
      outrider_deb_version(deb "${version}")
    elseif(described)
      outrider_git(commits ${directory} rev-list --count HEAD)
      set(version "${OUTRIDER_VERSION_NEXT}-${described}")
      string(REPLACE "-" "." deb "${OUTRIDER_VERSION_NEXT}~${commits}.g${described}")
    endif()
  endif()
  set(OUTRIDER_VERSION "${version}" PARENT_SCOPE)
  set(OUTRIDER_DEB_VERSION "${deb}" PARENT_SCOPE)
endfunction()
