// Text that a file or a user chose (names of models, modules and nodes, paths, words in a configuration) on its way
// into something that is parsed or read again. No other code of ours puts such text into JSON, SVG or a message by
// hand; Python has functions of its own (sdk/lib/torch_text/python_text.h). Any bytes are taken, UTF-8 or not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace meshwright {

// A byte that is no part of valid UTF-8.
inline constexpr char32_t kNoCharacter = 0xffffffff;

// The character that begins at byte `at` of `text`, and how many bytes it takes. Of a byte that is no UTF-8 (cut short,
// overlong, a surrogate, beyond U+10FFFF): kNoCharacter and 1.
std::pair<char32_t, std::size_t> character_at(std::string_view text, std::size_t at);

// A JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

// What stands between tags or in an attribute of XML. Characters that XML does not allow become U+FFFD.
std::string xml_text(std::string_view text);

// One line of a message: control characters, line breaks of every kind and marks that turn the direction of writing
// are shown as "\x1b" or "\u202e", so that no text can move the cursor or forge a line. Of a text longer than `most`
// bytes the middle is left out.
std::string message_line(std::string_view text, std::size_t most);

// Whether brackets of a JSON text stand more than `most` deep in each other. Those who parse and walk through such a
// text call themselves for each, so this is asked first.
bool nests_deeper(std::string_view json, std::size_t most);

// Why a text must not be given to the TOML parser, which would call itself for each dot of a key, or end up where its
// authors say that it can't; "" if it may. Whether the text is TOML otherwise the parser says.
std::string_view why_not_toml(std::string_view toml);

}  // namespace meshwright
