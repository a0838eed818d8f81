#include "outrider/config/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Secrets : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("OUTRIDER_TEST_PW", "a b'\\@:/", 1); }
  void TearDown() override {
    ::unsetenv("OUTRIDER_TEST_PW");
    std::remove(path_.c_str());
  }

  static std::string resolved(const std::string& raw) {
    Result<std::string> result = resolve_secret({raw});
    return result ? *result : "error: " + result.error().message;
  }
  static std::string conninfo(const std::string& raw) {
    Result<std::string> result = resolve_conninfo({raw});
    return result ? *result : "error: " + result.error().message;
  }

  std::string path_ = ::testing::TempDir() + "outrider_secrets_test";
};

TEST_F(Secrets, ComeFromVariablesAndFiles) {
  std::ofstream(path_) << "from file\r\n\n";
  EXPECT_EQ(resolved("x${env:OUTRIDER_TEST_PW}y"), "xa b'\\@:/y");
  EXPECT_EQ(resolved("${file:" + path_ + "}"), "from file");
  EXPECT_EQ(resolved("no reference $ { $1"), "no reference $ { $1");
  EXPECT_EQ(resolved("$${env:X} $$ $${"), "${env:X} $$ ${");
  EXPECT_EQ(resolved(""), "");
}

TEST_F(Secrets, AreReadAgainAtEveryCall) {
  std::ofstream(path_) << "old";
  EXPECT_EQ(resolved("${file:" + path_ + "}"), "old");
  std::ofstream(path_) << "new";
  EXPECT_EQ(resolved("${file:" + path_ + "}"), "new");
}

TEST_F(Secrets, ErrorsNameTheVariableOrThePathAndNeverTheContent) {
  Result<std::string> missing = resolve_secret({"top-secret ${env:OUTRIDER_TEST_NONE}"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::configuration);
  EXPECT_EQ(missing.error().message, "the environment variable \"OUTRIDER_TEST_NONE\" is not set");
  EXPECT_EQ(resolved("${file:" + path_ + "}"),
            "error: cannot read the secret file \"" + path_ + "\": No such file or directory");
  EXPECT_THAT(resolved("${file:/}"), HasSubstr("not a regular file"));
  std::ofstream(path_) << std::string("top-secret\0x", 12);
  EXPECT_THAT(resolved("${file:" + path_ + "}"), HasSubstr("holds a zero byte"));
  EXPECT_THAT(resolved("${file:" + path_ + "}"), Not(HasSubstr("top-secret")));
  std::ofstream(path_) << std::string(kSecretBytesMax + 1, 'x');
  EXPECT_THAT(resolved("${file:" + path_ + "}"), HasSubstr("larger than"));
}

TEST_F(Secrets, DoNotHangOnAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(resolved("${file:" + path_ + "}"), HasSubstr("not a regular file"));
}

TEST_F(Secrets, MalformedReferencesAreErrorsWithoutTheirText) {
  for (const char* bad : {"${", "a${env:X", "${env:}", "${env:1X}", "${env:A B}", "${file:}",
                          "${vault:x}", "${}", "${hunter2}"}) {
    Result<void> checked = check_references({bad});
    ASSERT_FALSE(checked) << bad;
    EXPECT_THAT(checked.error().message, Not(HasSubstr("hunter2")));
    EXPECT_FALSE(resolve_secret({bad})) << bad;
  }
  EXPECT_TRUE(check_references({"${env:OUTRIDER_TEST_NONE}${file:/none}"}));
}

TEST_F(Secrets, AreEscapedAsValuesOfAConninfo) {
  const std::string pw = "${env:OUTRIDER_TEST_PW}";
  EXPECT_EQ(conninfo("host=h password=" + pw + " user=u"),
            "host=h password=a\\ b\\'\\\\@:/ user=u");
  EXPECT_EQ(conninfo("password = '" + pw + "'"), "password = 'a b\\'\\\\@:/'");
  EXPECT_EQ(conninfo("postgresql://u:" + pw + "@h/d"), "postgresql://u:a%20b%27%5C%40%3A%2F@h/d");
  EXPECT_EQ(conninfo("postgres://h/d?user=u&password=" + pw + "&sslmode=require"),
            "postgres://h/d?user=u&password=a%20b%27%5C%40%3A%2F&sslmode=require");
  ::setenv("OUTRIDER_TEST_PW", "", 1);
  EXPECT_EQ(conninfo("password=" + pw + " host=h"), "password='' host=h");
}

TEST_F(Secrets, AreInsertedAsTheyAreForAWholeConninfoOrAHost) {
  ::setenv("OUTRIDER_TEST_PW", "host=h password='x y'", 1);
  EXPECT_EQ(conninfo("${env:OUTRIDER_TEST_PW}"), "host=h password='x y'");
  EXPECT_EQ(conninfo("${env:OUTRIDER_TEST_PW} user=u"), "host=h password='x y' user=u");
  ::setenv("OUTRIDER_TEST_PW", "h1:5432,h2:5432", 1);
  EXPECT_EQ(conninfo("postgresql://u@${env:OUTRIDER_TEST_PW}/d"),
            "postgresql://u@h1:5432,h2:5432/d");
}

TEST_F(Secrets, MaskHidesPasswordsInKeyValueForm) {
  EXPECT_EQ(mask_conninfo("host=h password=pw user=u"), "host=h password=*** user=u");
  EXPECT_EQ(mask_conninfo("password = 'a \\' b' host=h"), "password = '***' host=h");
  EXPECT_EQ(mask_conninfo("password=a\\ b host=h"), "password=*** host=h");
  EXPECT_EQ(mask_conninfo("PassWord=x sslpassword=y passfile=/f"),
            "PassWord=*** sslpassword=*** passfile=/f");
  EXPECT_EQ(mask_conninfo("password=${env:PW} host=h"), "password=${env:PW} host=h");
  EXPECT_EQ(mask_conninfo("password=x${env:PW} host=h"), "password=*** host=h");
  EXPECT_EQ(mask_conninfo("password= host=h"), "password= ***");
  EXPECT_EQ(mask_conninfo("host=h dbname=d"), "host=h dbname=d");
}

TEST_F(Secrets, MaskHidesPasswordsInUris) {
  EXPECT_EQ(mask_conninfo("postgresql://u:pw@h:5432/d"), "postgresql://u:***@h:5432/d");
  EXPECT_EQ(mask_conninfo("postgres://u@h:5432,i:5433/d?sslmode=require"),
            "postgres://u@h:5432,i:5433/d?sslmode=require");
  EXPECT_EQ(mask_conninfo("postgresql://h/d?user=u&password=pw&x=y"),
            "postgresql://h/d?user=u&password=***&x=y");
  EXPECT_EQ(mask_conninfo("postgresql://h/d?pass%77ord=pw"), "postgresql://h/d?pass%77ord=***");
  EXPECT_EQ(mask_conninfo("postgresql://u:${env:PW}@h/d"), "postgresql://u:${env:PW}@h/d");
  EXPECT_EQ(mask_conninfo("postgresql://${env:U}:pw@h/d"), "postgresql://${env:U}:***@h/d");
}

TEST_F(Secrets, MaskHidesTooMuchRatherThanTooLittle) {
  EXPECT_EQ(mask_conninfo("postgresql://u:p@ss/w?rd@h/d"), "postgresql://u:***@h/d");
  EXPECT_THAT(mask_conninfo("postgresql://h:1/d?user=a&password=b@c"), Not(HasSubstr("c")));
  EXPECT_EQ(mask_conninfo("password=two words host=h"), "password=*** host=h");
  EXPECT_EQ(mask_conninfo("hunter2"), "***");
  EXPECT_EQ(mask_conninfo("${env:DATABASE_URL}"), "${env:DATABASE_URL}");
  EXPECT_EQ(mask_conninfo("password='never closed"), "password='***");
  EXPECT_EQ(mask_conninfo("password=${broken host=h"), "password=*** host=h");
  EXPECT_EQ(mask_conninfo(""), "");
}

TEST_F(Secrets, PropertiesThatHoldSecretsAreKnown) {
  for (const char* secret : {"sasl.password", "ssl.key.password", "ssl.keystore.password",
                             "ssl.key.pem", "ssl_key_pem.ssl.key.pem", "sasl.oauthbearer.config",
                             "sasl.oauthbearer.client.secret", "SASL.Password"}) {
    EXPECT_TRUE(is_secret_property(secret)) << secret;
  }
  for (const char* open : {"sasl.username", "ssl.ca.pem", "ssl.key.location", "linger.ms",
                           "sasl.oauthbearer.token.endpoint.url"}) {
    EXPECT_FALSE(is_secret_property(open)) << open;
  }
}

}  // namespace
}  // namespace outrider
