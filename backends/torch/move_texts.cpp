#include "move_texts.h"

#include "layout_text.h"
#include "python_text.h"

namespace meshwright::torch {

namespace {

// What is the same for moves that can be one collective: "all_gather(" of "all_gather(1, dim=0)"; empty for others.
std::string kind_of(const std::string& move) {
  for (const char* kind : {"all_gather(", "all_reduce(", "reduce_scatter("}) {
    if (move.starts_with(kind)) return move.ends_with(", op=\"max\")") ? std::string(kind) + "max" : kind;
  }
  return "";
}

std::vector<std::string> at_once(std::vector<std::string> moves) {
  std::vector<std::string> made;
  for (std::size_t begin = 0; begin < moves.size();) {
    const std::string kind = kind_of(moves[begin]);
    std::size_t end = begin + 1;
    while (end < moves.size() && !kind.empty() && kind_of(moves[end]) == kind) ++end;
    const std::vector<std::string> run(moves.begin() + static_cast<std::ptrdiff_t>(begin), moves.begin() + static_cast<std::ptrdiff_t>(end));
    made.push_back(run.size() > 1 ? "at_once(" + join(run) + ")" : run[0]);
    begin = end;
  }
  return made;
}

}  // namespace

std::vector<std::string> move_texts(const ShardedType& from, const std::vector<Move>& moves, const Mesh& mesh) {
  std::vector<std::string> texts;
  ShardedType here = from;
  for (const Move& move : moves) {
    for (std::string& text : torch::moves(here, move, mesh)) texts.push_back(std::move(text));
    here.layout = move.result;
  }
  return at_once(std::move(texts));
}

}  // namespace meshwright::torch
