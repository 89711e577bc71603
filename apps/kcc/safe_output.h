// The way out for everything kcc prints: a stream buffer that lets no character through with which
// text from a file name, a request, a program or a server could steer the terminal or the log it is
// shown in. Nothing else in the program has to remember it.
//
// Escaped, as \x1b or \u202e: control characters but line feed and tab, DEL, C1 controls, bytes
// that are not UTF-8, and the characters that reorder text. kcc's own colours pass where
// they are switched on, and no other escape sequence does. "::" at the start of a line and "##[" or
// "##vso[" anywhere are commands to a CI runner that reads the log; their first character is
// escaped too. In JSON the same characters are written as \u escapes, so it means what it meant.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

namespace kcc::cli {

class SafeOutput final : public std::streambuf {
 public:
  SafeOutput(std::streambuf& target, bool colour) : target_(target), colour_(colour) {}
  ~SafeOutput() override { Finish(); }

  // Whether the text is JSON, or a contract's own, looked at with each write: known only once
  // arguments are parsed. A contract was checked for the rest, and a "::" in it must stay.
  void Follow(const bool* json, const bool* contract) {
    json_ = json;
    contract_ = contract;
  }

  // Writes what was held back because its end had not come.
  bool Finish();

  // Whether text was lost for want of memory, which a stream keeps to itself.
  bool out_of_memory() const { return out_of_memory_; }

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int sync() override { return target_.pubsync(); }

 private:
  bool Put(std::string_view text, bool last) noexcept;
  bool PutSafe(std::string_view text, bool last);

  std::streambuf& target_;
  bool colour_;
  const bool* json_ = nullptr;
  const bool* contract_ = nullptr;
  std::string held_;           // the beginning of a character or of an escape sequence
  bool at_line_start_ = true;  // nothing but blanks since the last line feed
  bool out_of_memory_ = false;
};

// One value in a line of text: what SafeOutput escapes, and line feeds and tabs too. For what
// others named: a request id with a line feed must not begin a line of its own.
std::string Shown(std::string_view text);

}  // namespace kcc::cli
