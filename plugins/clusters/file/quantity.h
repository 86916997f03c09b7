// Numbers with units, as cluster and device files write them: "80GiB", "200GB/s", "312TFLOP/s", "3us".
#pragma once

#include <optional>
#include <string_view>

namespace meshwright {

// In bytes, bytes per second, FLOPs per second or seconds, whichever `unit` is: "B", "B/s", "FLOP/s" or "s". Nothing if
// the text is not a number with a prefix (k, K, M, G, T, P; Ki, Mi, Gi, Ti; m, u, n) and that unit.
std::optional<double> parse_quantity(std::string_view text, std::string_view unit);

}  // namespace meshwright
