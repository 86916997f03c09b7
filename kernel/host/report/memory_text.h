// A memory profile for the terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "meshwright/memory_profile.h"

namespace meshwright::host {

// The curve, the peak with what it is made of, and a table of nodes with at most `rows` rows: nodes that are alike but
// for the number of their layer share one, and those that make most come first.
std::string memory_text(const Program& program, const MemoryProfile& profile, std::size_t rows);

// "Peak 3.06 GiB in the backward of 'linear_12' (aten.linear in h.3.mlp)", and a table of what it is made of, by kind.
std::string peak_text(const Program& program, const MemoryProfile& profile);

// "Of the 80.0 GiB of a device", and a table of what its memory holds when a plan runs, by name; the last row is what
// stays free, or what is lacking. Nothing where the program is all that a device is known to hold.
std::string account_text(const MemoryAccount& account, std::int64_t memory_bytes);

// "the backward of 'linear_12' (aten.linear in h.3.mlp)"
std::string peak_place(const Program& program, const MemoryProfile& profile);

// "forward", or of several microbatches "forward 3".
std::string event_text(const Program& program, const Occurrence& at);

// The first column behind `column` that belongs to another event: a phase of a microbatch.
std::size_t end_of_event(const Program& program, const MemoryProfile& profile, const std::vector<std::size_t>& columns, std::size_t column);

// "; of 64 microbatches those that repeat are drawn twice", or nothing.
std::string left_out_text(const Program& program);

// For each of `columns` equal parts of the curve the point at which most is held; one for each point if there are fewer.
std::vector<std::size_t> highest_of_columns(const MemoryProfile& profile, std::size_t columns);

}  // namespace meshwright::host
