# Sources with a piece of text replaced: for tests that must fail (tests/sim, tests/prove).

# Writes a file unless it is like that already, so that configuring again compiles nothing.
function(outrider_write path text)
  if(EXISTS ${path})
    file(READ ${path} old)
  endif()
  if(NOT EXISTS ${path} OR NOT old STREQUAL text)
    file(WRITE ${path} "${text}")
  endif()
endfunction()

# outrider_replace(<variable> <what> <file> <from> <to>): replaces in the text that the variable
# holds. The text must be there: a mutant that no longer applies fails the build instead of passing
# unnoticed.
function(outrider_replace variable what file from to)
  string(FIND "${${variable}}" "${from}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${what}: the text to replace is not in ${file}:\n${from}")
  endif()
  string(REPLACE "${from}" "${to}" text "${${variable}}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()
