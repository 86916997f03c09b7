// Processes that a launcher started together, to run one program with a rank in each: what they tell each other besides
// what the program moves. Each process calls the same in the same order, and waits until all have called it; a process
// that can't go on ends all, so that none waits for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "meshwright/result.h"

namespace meshwright {

// Used by one thread.
class ProcessWorld {
 public:
  virtual ~ProcessWorld() = default;

  [[nodiscard]] virtual int rank() const = 0;  // of this process, from 0
  [[nodiscard]] virtual int size() const = 0;

  // What `root` has, on all alike; of as many bytes on each.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void broadcast(std::string& text, int root) = 0;
  // What each of the processes from `first` on has, this one among them, which alone call it: `parts` by process, all
  // of one size; this one's is given, the others' are filled.
  virtual void share(std::span<const std::span<std::byte>> parts, int first) = 0;
  // The error of the lowest process that has one, on all alike.
  virtual Status agree(const Status& mine) = 0;
  // Over all processes.
  virtual std::int64_t sum(std::int64_t number) = 0;
  virtual double sum(double number) = 0;
  virtual std::int64_t largest(std::int64_t number) = 0;
  virtual std::int64_t smallest(std::int64_t number) = 0;

  // Says why and ends all processes, with the error's code.
  [[noreturn]] virtual void end_all(const Error& error) const = 0;
};

}  // namespace meshwright
