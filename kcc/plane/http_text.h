// Small parts of HTTP/1.1 as text: what is a token, which fields belong to one connection, a field
// written so that no value can end its line.
#pragma once

#include <string>
#include <string_view>

namespace kcc {

bool IsTokenText(std::string_view text);   // not empty
bool IsFieldValue(std::string_view text);  // no control character but the tab
bool EqualsIgnoringCase(std::string_view a, std::string_view b);
std::string_view TrimBlanks(std::string_view text);

// The next part of a list with commas, without blanks; `list` becomes what is behind it.
std::string_view NextListItem(std::string_view* list);

// Of one connection or one message, never passed on: Connection, Keep-Alive, TE, Trailer, Upgrade,
// Proxy-..., Transfer-Encoding, Content-Length, Host and Expect.
bool IsConnectionField(std::string_view name);

// "name: value" and the end of the line; nothing where either is not fit for one.
void AppendField(std::string* head, std::string_view name, std::string_view value);

}  // namespace kcc
