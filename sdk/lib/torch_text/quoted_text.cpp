// Foreign text in Python (python_text.h): nothing that a file says may become code.
#include <algorithm>
#include <array>
#include <cstdio>

#include "foreign_text.h"
#include "python_text.h"

namespace meshwright::torch {

namespace {

bool is_keyword(std::string_view name) {
  static constexpr std::array kKeywords = {"and",  "as",     "assert", "async",  "await", "break",  "class", "continue", "def", "del",    "elif",  "else",
                                           "except", "False", "finally", "for",  "from",  "global", "if",    "import",   "in",  "is",     "lambda", "None",
                                           "nonlocal", "not", "or",   "pass",   "raise",  "return", "True",     "try", "while", "with",  "yield"};
  return std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string escape(char32_t code) {
  std::array<char, 12> text{};
  const char* const form = code < 0x80 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(text.data(), text.size(), form, static_cast<unsigned>(code));
  return text.data();
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string all = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto [found, length] = character_at(text, at);
    // The surrogate by which Python names a byte that is no UTF-8.
    const char32_t code = found == kNoCharacter ? 0xdc00U + static_cast<unsigned char>(text[at]) : found;
    if (code == '\\') all += "\\\\";
    else if (code < 0x20 || code >= 0x7f || code == '"') all += escape(code);
    else all += static_cast<char>(code);
    at += length;
  }
  return all + "\"";
}

std::string comment(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string all;
  for (const char c : text) all += c == '"' ? '\'' : c == '\\' ? '/' : c < 0x20 || c >= 0x7f ? '?' : c;
  if (all.size() <= kMost) return all;
  return all.substr(0, kMost / 2) + " ... " + all.substr(all.size() - kMost / 2);
}

std::string identifier(std::string_view name) {
  std::string made;
  for (const char c : name) made += is_letter(c) || is_digit(c) ? c : '_';
  if (made.empty() || is_digit(made[0])) made = "_" + made;
  if (is_keyword(made)) made += "_";
  return made;
}

std::string dotted_name(std::string_view name) {
  std::string made;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    made += (made.empty() ? "" : ".") + identifier(name.substr(at, dot - at));
    at = dot + 1;
  }
  return made;
}

std::string named_dtype(const std::string& name) {
  const auto known = parse_dtype(name);
  return known ? dtype(*known) : quoted(name);
}

std::string memory_format(const std::string& name) {
  if (name == "contiguous" || name == "preserve") return "torch." + name + "_format";
  return name == "channels_last" || name == "channels_last_3d" ? "torch." + name : quoted(name);
}

}  // namespace meshwright::torch
