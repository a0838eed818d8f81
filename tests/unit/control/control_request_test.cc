#include "outrider/control/control_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ControlRequest> parse(std::string line) {
  return parse_control_request({line.data(), line.size()});
}

std::string fault_of(const std::string& line) {
  const Result<ControlRequest> request = parse(line);
  return request ? "" : request.error().message;
}

TEST(ControlRequest, TakesTextsNumbersTruthAndLists) {
  const auto request = parse(
      R"( {"v":1,"command":"dead-letters.list","arguments":{"reason":"too_large","number":[1,22],)"
      R"("all":true,"type":"a\"é\n","id":[]}} )");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->command, "dead-letters.list");
  EXPECT_THAT(request->arguments.at("reason"), ElementsAre("too_large"));
  EXPECT_THAT(request->arguments.at("number"), ElementsAre("1", "22"));
  EXPECT_THAT(request->arguments.at("all"), ElementsAre("true"));
  EXPECT_THAT(request->arguments.at("type"), ElementsAre("a\"é\n"));
  EXPECT_TRUE(request->arguments.at("id").empty());
}

TEST(ControlRequest, NeedsNoArguments) {
  const auto request = parse(R"({"command":"status","v":1})");
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->arguments.empty());
}

TEST(ControlRequest, RefusesAnotherVersionByName) {
  EXPECT_EQ(fault_of(R"({"v":2,"command":"status"})"),
            "protocol version \"2\" is not known, this relay speaks 1");
  EXPECT_THAT(fault_of(R"({"command":"status"})"), HasSubstr("protocol version \"none\""));
  EXPECT_THAT(fault_of(R"({"v":"1","command":"status"})"), HasSubstr("\"v\" is unknown or of"));
}

TEST(ControlRequest, RefusesWhatItDoesNotUnderstand) {
  for (const char* line :
       {"", "x", "[]", "{}", R"({"v":1})", R"({"v":1,"command":7})", R"({"v":1,"command":"a"}x)",
        R"({"v":1,"command":"a","more":1})", R"({"v":1,"command":"a","arguments":[]})",
        R"({"v":1,"command":"a","arguments":{"b":null}})",
        R"({"v":1,"command":"a","arguments":{"b":1.5}})",
        R"({"v":1,"command":"a","arguments":{"b":[[1]]}})",
        R"({"v":1,"command":"a","arguments":{"b":{"c":1}}})",
        R"({"v":1,"command":"a","arguments":{"b":1,"b":2}})",
        R"({"v":1,"command":"a","arguments":{)"}) {
    EXPECT_NE(fault_of(line), "") << line;
  }
  EXPECT_EQ(fault_of(R"({"v":1,"command":"a","arguments":{"b":1,"b":2}})"),
            "the request is malformed: argument \"b\" is there twice");
  EXPECT_THAT(fault_of("{\"v\":1,"), HasSubstr("at byte"));
}

TEST(ControlRequest, LineIsReadBackAsItWas) {
  const ControlArguments arguments = {{"id", {"a \"b\"", "ü\n"}}, {"all", {"true"}}};
  const auto request = parse(control_request_line("dead-letters.retry", arguments));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->command, "dead-letters.retry");
  EXPECT_EQ(request->arguments, arguments);
}

TEST(ControlRequest, ErrorLineCarriesKindMessageAndHint) {
  EXPECT_EQ(control_error_line({ErrorKind::transient, "no \"x\"", "wait", {}}),
            R"({"error":{"kind":"transient","message":"no \"x\"","hint":"wait"}})");
  EXPECT_THAT(control_error_line({ErrorKind::fatal, "m", "", "42P01"}), HasSubstr("42P01"));
}

}  // namespace
}  // namespace outrider
