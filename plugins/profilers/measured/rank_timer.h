// Times one piece of work that several threads do at the same moment, as ranks that share a CPU do.
#pragma once

#include <functional>

namespace meshwright {

// What one thread repeats. It is called on that thread only.
using RankWork = std::function<void()>;

// Makes the work of rank `rank`, on the thread that will do it, so that its memory is near that thread.
using RankWorkMaker = std::function<RankWork(int rank)>;

// Seconds of one repetition. All ranks begin together and each part lasts until the slowest of them is done, since a
// collective would wait for it too; the answer is the median of several parts that last about `seconds` in all, or of
// three repetitions where one takes longer. Throws what the maker or the work throws, and std::system_error where
// threads can't be started.
double seconds_of(const RankWorkMaker& make, int ranks, double seconds);

}  // namespace meshwright
