// What a launcher says to the processes that it started together, in their environment: torchrun, mpirun (OpenMPI) or
// Slurm's srun; or a person, who sets torchrun's variables by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "meshwright/result.h"

namespace meshwright {

struct Launched {
  std::string launcher;    // "torchrun", "mpirun" or "srun"
  int rank = 0, size = 1;  // of the world
  int local_rank = 0;      // on this machine
  std::string address;     // of rank 0's machine
  std::uint16_t port = 0;  // where the ranks meet there
};

// A variable's value; null: it is not set. As std::getenv.
using Environment = std::function<const char*(const char*)>;

// Nothing: no launcher started this process. torchrun's RANK, WORLD_SIZE and LOCAL_RANK go before OpenMPI's
// OMPI_COMM_WORLD_RANK, ..., and these before Slurm's SLURM_PROCID, ... The ranks meet at MASTER_ADDR, which a world on
// one machine under mpirun or srun need not name, and at MESHWRIGHT_PORT, else one above MASTER_PORT (where torchrun
// itself may listen), else 29501.
// Errors: bad_input, with the variable's name: of those that belong together one is missing, or is no number in range.
Result<std::optional<Launched>> find_launched(const Environment& environment);

}  // namespace meshwright
