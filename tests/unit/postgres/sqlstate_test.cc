#include "postgres/sqlstate.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace outrider {
namespace {

constexpr auto kTransient = ErrorKind::transient;
constexpr auto kConfiguration = ErrorKind::configuration;
constexpr auto kFatal = ErrorKind::fatal;

struct Case {
  const char* sqlstate;
  const char* row;  ///< The prefix that must decide.
  ErrorKind kind;
};

const Case kCases[] = {
    {"08006", "08", kTransient},
    {"0A000", "0A000", kConfiguration},
    {"22023", "22023", kConfiguration},
    {"25006", "25006", kTransient},
    {"28P01", "28", kConfiguration},
    {"28000", "28", kConfiguration},
    {"3D000", "3D000", kConfiguration},
    {"3F000", "3F000", kConfiguration},
    {"40P01", "40", kTransient},
    {"42501", "42501", kConfiguration},
    {"42601", "42601", kConfiguration},
    {"42704", "42704", kFatal},
    {"42710", "42710", kTransient},
    {"42P01", "42P01", kConfiguration},
    {"42703", "42", kConfiguration},
    {"53200", "53", kTransient},
    {"53300", "53300", kTransient},
    {"53400", "53400", kTransient},
    {"54000", "54", kFatal},
    {"55000", "55000", kFatal},
    {"55006", "55006", kTransient},
    {"55P03", "55P03", kTransient},
    {"57014", "57014", kTransient},
    {"57P01", "57P01", kTransient},
    {"57P02", "57P02", kTransient},
    {"57P03", "57P03", kTransient},
    {"57P04", "57P04", kFatal},
    {"58030", "58030", kTransient},
    {"58P01", "58P01", kFatal},
    {"XX000", "XX", kTransient},
};

TEST(Sqlstate, EveryRowHasItsCase) {
  std::set<std::string> covered;
  for (const Case& one : kCases) {
    covered.insert(one.row);
    ServerError error{one.sqlstate, "text", "", ""};
    Error out = classify_server_error("cannot do it", error);
    EXPECT_EQ(out.kind, one.kind) << one.sqlstate;
    EXPECT_EQ(out.code, one.sqlstate);
    EXPECT_EQ(out.message, "cannot do it: text");
  }
  for (const SqlstateRow& row : sqlstate_table()) {
    EXPECT_TRUE(covered.contains(std::string(row.prefix))) << row.prefix;
  }
  EXPECT_EQ(covered.size(), sqlstate_table().size());
}

TEST(Sqlstate, UnknownCodesAreTransient) {
  EXPECT_EQ(classify_server_error("x", ServerError{"ZZ999", "t", "", ""}).kind, kTransient);
  EXPECT_EQ(classify_server_error("x", ServerError{"", "t", "", ""}).kind, kTransient);
}

TEST(Sqlstate, TheServersHintWins) {
  Error out = classify_server_error("x", ServerError{"42501", "no", "because", "do this"});
  EXPECT_EQ(out.hint, "do this");
  EXPECT_EQ(out.message, "x: no (because)");
}

TEST(ConnectFailure, ReadsTheSqlstateOutOfLibpqsText) {
  Error out = classify_connect_failure(
      "connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  28P01: password "
      "authentication failed for user \"relay\"\nLOCATION:  auth_failed, auth.c:338\n",
      false);
  EXPECT_EQ(out.kind, kConfiguration);
  EXPECT_EQ(out.code, "28P01");
  EXPECT_EQ(out.message,
            "cannot connect to PostgreSQL: connection to server at \"127.0.0.1\", port 5432 "
            "failed: FATAL:  password authentication failed for user \"relay\"");
}

TEST(ConnectFailure, ReadsTheSqlstateInAnyLanguage) {
  Error out = classify_connect_failure("... failed: FATAL:  57P03: das System startet\n", false);
  EXPECT_EQ(out.kind, kTransient);
  EXPECT_EQ(out.code, "57P03");
}

TEST(ConnectFailure, TheLastHostDecides) {
  Error out = classify_connect_failure(
      "connection to server at \"a\", port 1 failed: FATAL:  28P01: no\n"
      "connection to server at \"b\", port 2 failed: Connection refused\n",
      false);
  EXPECT_EQ(out.kind, kTransient);
  EXPECT_EQ(out.code, "");
}

TEST(ConnectFailure, TellsLastingTlsFailuresFromBrokenLinks) {
  const std::string at = "connection to server at \"h\", port 1 failed: ";
  for (const char* lasting :
       {"SSL error: certificate verify failed", "server does not support SSL, but SSL was required",
        "server certificate for \"a\" does not match host name \"b\"",
        "root certificate file \"/x\" does not exist", "fe_sendauth: no password supplied",
        "SSL error: tlsv1 alert unknown ca",
        "channel binding is required, but server did not offer an authentication method that "
        "supports channel binding"}) {
    EXPECT_EQ(classify_connect_failure(at + lasting, false).kind, kConfiguration) << lasting;
  }
  for (const char* passing :
       {"Connection refused", "SSL SYSCALL error: EOF detected",
        "SSL error: unexpected eof while reading", "server closed the connection unexpectedly",
        "could not translate host name \"h\" to address: Name or service not known",
        "timeout expired", "session is read-only"}) {
    EXPECT_EQ(classify_connect_failure(at + passing, false).kind, kTransient) << passing;
  }
}

TEST(ConnectFailure, AMissingPasswordIsConfiguration) {
  EXPECT_EQ(classify_connect_failure("whatever", true).kind, kConfiguration);
}

}  // namespace
}  // namespace outrider
