// Strategy spaces made from a seed; for tests. The same seed gives the same space everywhere: only the engine's raw
// numbers are used, never the library's distributions.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "meshwright/strategy_space.h"

namespace meshwright::agreement {

// A chain, a tree or a DAG of few nodes, with forbidden entries, ties, shared tables, parallel edges and memory terms
// of several lifetimes. Small enough to try every choice.
StrategySpace random_space(std::uint64_t seed);

// A transformer's shape: `layers` alike layers of twelve nodes with two residual paths each, `strategies` per node, and
// memory of weights (held throughout) and activations (held from their layer on).
StrategySpace transformer_space(std::uint64_t seed, int layers, std::uint32_t strategies);

// Graphs that are not chains, in which every node holds memory until its last reader.
//
// A U-Net: `levels` down, one at the bottom, as many up; each level down is read by the same level up too. Narrow, however
// many levels there are.
StrategySpace unet_space(std::uint64_t seed, std::uint32_t levels, std::uint32_t strategies);
// A DenseNet: in each block every layer reads all that came before it in the block. As wide as a block has layers.
StrategySpace densenet_space(std::uint64_t seed, std::uint32_t blocks, std::uint32_t layers, std::uint32_t strategies);
// T5's shape: an encoder and a decoder, each with a position bias that all of its layers read, and the encoder's last node
// read by all layers of the decoder.
StrategySpace encoder_decoder_space(std::uint64_t seed, std::uint32_t layers, std::uint32_t strategies);

// A random DAG: every node has edges from up to three of the `reach` nodes before it, which makes it far too wide for
// exact elimination, and holds memory from its place on for a while.
StrategySpace random_dag_space(std::uint64_t seed, std::uint32_t nodes, std::uint32_t strategies, std::uint32_t reach);

}  // namespace meshwright::agreement
