# The relay built wrong on purpose, each time in one way that would lose or repeat events.
#
# Included by CMakeLists.txt it makes the targets outrider_<name>, none of them part of `all`; as a
# script (cmake -P, from the top of the sources) it only checks that every change still applies.
# wrong-builds.py runs what has to catch each of them.
include(${CMAKE_CURRENT_LIST_DIR}/../support/mutant.cmake)

if(NOT CMAKE_SCRIPT_MODE_FILE)
  find_package(CLI11 REQUIRED)
  add_library(wrong_builds_main OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/src/app/main.cc)
  target_include_directories(wrong_builds_main
                             PRIVATE ${CMAKE_BINARY_DIR}/src/app/generated)
  target_link_libraries(wrong_builds_main PUBLIC outrider_app outrider_demo CLI11::CLI11)
  add_custom_target(wrong_builds)
endif()

# outrider_wrong_build(<name> <file> <from> <to> [<from> <to>]...)
function(outrider_wrong_build name file)
  set(source ${CMAKE_SOURCE_DIR}/${file})
  file(READ ${source} text)
  set(at 2)
  while(at LESS ARGC)
    math(EXPR next "${at} + 1")
    outrider_replace(text "wrong build ${name}" ${file} "${ARGV${at}}" "${ARGV${next}}")
    math(EXPR at "${at} + 2")
  endwhile()
  if(CMAKE_SCRIPT_MODE_FILE)
    math(EXPR changes "(${ARGC} - 2) / 2")
    message(STATUS "${name}: changes of ${file} that apply: ${changes}")
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  # Of the library the linker then takes all files but the one that has this one's symbols.
  get_filename_component(base ${file} NAME)
  set(changed ${CMAKE_CURRENT_BINARY_DIR}/wrong_builds/${name}/${base})
  outrider_write(${changed} "${text}")
  add_executable(outrider_${name} EXCLUDE_FROM_ALL ${changed})
  target_link_libraries(outrider_${name} PRIVATE wrong_builds_main)
  add_dependencies(wrong_builds outrider_${name})
endfunction()

# Delivered is what librdkafka has in its queue.
outrider_wrong_build(confirms_on_produce src/kafka/producer_sink.cc
  "std::string random_name() {"
  "std::deque<std::uint64_t> settled_early;\n\nstd::string random_name() {"
  "  ++open_;\n  if (exactly_once()) {\n"
  "  ++open_;\n  if (!exactly_once()) settled_early.push_back(sequence);\n  if (exactly_once()) {\n"
  "  if (const auto sequence = transactions_.take_finished()) {\n"
  "  if (!settled_early.empty()) {
    report = Delivered{settled_early.front()};
    settled_early.pop_front();
    return true;
  }
  if (const auto sequence = transactions_.take_finished()) {\n"
  "    report = Delivered{sequence_of(message)};\n  }\n  return true;"
  "    return false;\n  }\n  return true;"
  "  session_.detach();\n  reports_.reset();"
  "  session_.detach();\n  settled_early.clear();\n  reports_.reset();")

# The records' transaction is committed first, then the position in a transaction of its own, at
# most once a second.
outrider_wrong_build(position_outside_the_transaction src/kafka/transactions.cc
  "          point_ = plan_.point();\n          break;"
  "          point_ = plan_.point();
          ending_at_ = now;
          phase_ = Phase::flushing;
          return std::nullopt;"
  "  sequences_.clear();\n  committed_ = point_;"
  "  if (sequences_.empty()) {
    committed_ = point_;
  } else {
    reserve(point_.lsn);
  }
  sequences_.clear();"
  "  if (phase_ == Phase::idle) return true;"
  "  if (phase_ == Phase::idle) return !reserve_due(now);")

# The server is told what is flushed, whether that is written down in Kafka or not.
outrider_wrong_build(slot_past_the_position src/relay/relay_session.cc
  "std::min(tracker_.flushed_lsn(), sink_.confirm_limit())" "tracker_.flushed_lsn()")

# Several requests are under way, and one that fails does not stop those behind it.
outrider_wrong_build(no_gapless_guarantee src/kafka/producer_config.cc
  "{\"enable.idempotence\", \"true\"},\n    {\"acks\", \"all\"}"
  "{\"enable.idempotence\", \"false\"},\n    {\"acks\", \"all\"}"
  "{\"enable.gapless.guarantee\", \"true\"},\n    {\"message.timeout.ms\", \"0\"}"
  "{\"enable.gapless.guarantee\", \"false\"},\n    {\"message.timeout.ms\", \"0\"}")
