// Secrets: ${env:NAME} and ${file:/path} in a SecretText, read at the moment of use.
//
// Nothing is cached: each call reads again, so a rotated secret is picked up at the next connect.
// "$${" stands for a literal "${". A file's trailing line breaks are cut off. Errors are of kind
// configuration; they name the variable or the path and never the content. Limit: a secret file
// has at most kSecretBytesMax bytes. Any thread that may call getenv.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "outrider/base/result.h"
#include "outrider/config/config.h"

namespace outrider {

inline constexpr std::size_t kSecretBytesMax = 1024 * 1024;

/// The text with its references replaced, each exactly as it is.
Result<std::string> resolve_secret(const SecretText& secret);

/// The same for a libpq conninfo: what stands for a value in key=value form, or for the password or
/// a parameter of a URI, is escaped on the way in, so that any password works as it is. A reference
/// elsewhere (the whole conninfo, a host) is inserted unchanged. libpq manual, 34.1.1.
Result<std::string> resolve_conninfo(const SecretText& conninfo);

/// For a check without the secrets: the text with a stand-in for each reference.
Result<std::string> resolve_with_stand_ins(const SecretText& secret);

/// Whether the text, resolved, is host:port[,host:port…]. The value is not shown.
Result<> check_bootstrap_servers(std::string_view servers);

/// Whether the references are well-formed; reads nothing.
Result<void> check_references(const SecretText& secret);

/// Whether the text is nothing but references, hence safe to show.
bool only_references(std::string_view text);

/// A conninfo, resolved or not, with its passwords replaced by "***" in key=value and URI form.
/// Passwords that are nothing but references stay. Where the form is doubtful it masks too much.
std::string mask_conninfo(std::string_view conninfo);

/// Whether a librdkafka property of that name holds a secret (sasl.password, ssl.key.pem, …).
bool is_secret_property(std::string_view name);

}  // namespace outrider
