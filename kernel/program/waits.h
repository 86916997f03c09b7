// Where the compute stream waits for the communication stream. Private to the kernel.
#pragma once

#include <algorithm>
#include <vector>

#include "meshwright/program.h"

namespace meshwright {

// How far the communication stream is with storages, as instructions are gone through in their order. A storage is named by where
// it stands in a table of so many.
class CommunicationProgress {
 public:
  explicit CommunicationProgress(std::size_t places) : last_(places, 0) {}

  void issue() { ++issued_; }
  // The instruction issued last makes or reads it.
  void use(std::size_t place) { last_[place] = issued_; }
  // The instruction that uses it last, of those issued so far, by its number from 1; 0: none does.
  [[nodiscard]] std::int64_t last_use(std::size_t place) const { return last_[place]; }
  [[nodiscard]] bool is_busy(std::size_t place) const { return last_[place] > done_; }
  // Known to be done, with all before it.
  void wait_for(std::int64_t instruction) { done_ = std::max(done_, instruction); }

 private:
  std::int64_t issued_ = 0, done_ = 0;
  std::vector<std::int64_t> last_;
};

// What instructions of the compute stream may have to wait for.
class SharedStorages {
 public:
  explicit SharedStorages(const Program& program);

  // The value whose storage it has.
  [[nodiscard]] ProgramValueId owner(ProgramValueId value) const { return owners_[value]; }
  // Whether the communication stream makes or reads this storage, anywhere in the program.
  [[nodiscard]] bool is_used(ProgramValueId owner) const { return used_[owner]; }
  // Values that this reads as the communication stream made them, or that it frees or changes, which that may still use.
  [[nodiscard]] std::vector<ProgramValueId> touched(const Program& program, const Instruction& instruction) const;

 private:
  std::vector<ProgramValueId> owners_;
  std::vector<bool> made_, used_;  // by owner
};

// Behind the frees (place_frees in program.h): puts those off that computing would wait for, and states all waits.
void place_waits(Program& program);

// Of a program in which each value is made before it is used: that nothing is read before the other stream has made it, and nothing
// freed or changed while that may still use it. Errors: bad_input that names the instruction and the value.
Status check_waits(const Program& program);

}  // namespace meshwright
