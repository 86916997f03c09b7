// Quantities as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright {

// "0 B", "512 B", "1.50 KiB", "12.3 MiB", "131 GiB", "1.02 TiB": three digits.
std::string size_text(std::int64_t bytes);

// The same, or to the byte where it would read as the other size does and is not that.
std::string size_text_beside(std::int64_t bytes, std::int64_t other);

// The least size that is no less than this and that size_text writes exactly, so that it can be asked for as it is written.
std::int64_t written_size(std::int64_t bytes);

// "12.345 ms"
std::string milliseconds(double seconds);

// "1.52 %", of 0.0152.
std::string percent(double share);

}  // namespace meshwright
