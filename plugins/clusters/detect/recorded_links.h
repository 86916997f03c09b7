// What was measured between devices, in a CSV file.
//
//   a,b,latency_s,bandwidth_Bps          the table of pairs: seconds of one small message, bytes per second of large ones
//   0,1,3.1e-6,1.98e11
//   ...
//   group,bytes,seconds                  and, if any were measured, that of groups: all-reduces of so many bytes
//   0 1 2 3,64000000,0.00048
//
// A line that names columns begins a table; they may be in any order, and so may rows. Devices are numbered from 0 without gaps. Each pair must
// be there, in one direction or in both; where it is in one, the other is taken to be alike. What is there several times counts by its
// median. Empty lines and those that begin with '#' are skipped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "link_matrix.h"

namespace meshwright {

struct GroupTime {
  std::vector<std::size_t> devices;  // ascending
  double bytes = 0;                  // of the all-reduce
  double seconds = 0;
};

struct RecordedLinks {
  LinkMatrix pairs;
  std::vector<GroupTime> groups = {};
};

// `where` begins each error's sentence, with the line's number where there is one. Errors: bad_input.
Result<RecordedLinks> read_recorded_links(std::string_view text, const std::string& where, Directions directions = Directions::alike);

}  // namespace meshwright
