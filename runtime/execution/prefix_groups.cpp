#include "execution/prefix_groups.hpp"

#include <algorithm>

#include "execution/step_work.hpp"

namespace mortise {

void PrefixGroups::assign(std::span<const RowRun> runs) {
  paths_.clear();
  offsets_.assign(1, 0);
  seqs_.clear();
  shared_tokens_.clear();
  parents_.clear();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // The first row of a run sees the fewest tokens: its own token is the last of them.
    const auto whole = static_cast<std::size_t>((runs[i].first + 1) / block_size_);
    if (whole > 0) paths_.push_back({static_cast<std::int32_t>(i), runs[i].blocks.first(whole)});
  }
  branch(paths_, 0, -1);
}

// `paths` are equal in their first `depth` blocks. Sorts the paths that are longer by their next block, and follows
// each next block that several paths share.
void PrefixGroups::branch(std::span<Path> paths, std::size_t depth, std::int32_t parent) {
  const auto ended = std::ranges::partition(paths, [=](const Path& path) { return path.blocks.size() > depth; });
  paths = paths.first(paths.size() - ended.size());
  std::ranges::sort(paths, {}, [=](const Path& path) { return path.blocks[depth]; });
  while (!paths.empty()) {
    const BlockId next = paths.front().blocks[depth];
    const auto other = std::ranges::find_if(paths, [=](const Path& path) { return path.blocks[depth] != next; });
    const auto count = static_cast<std::size_t>(other - paths.begin());
    if (count > 1) follow(paths.first(count), depth, parent);
    paths = paths.subspan(count);
  }
}

// `paths` are at least two, and equal in more than `depth` blocks. Walks along the longest path. Where some paths leave
// it, all paths that came so far become a group; the paths that leave may share other branches.
void PrefixGroups::follow(std::span<Path> paths, std::size_t depth, std::int32_t parent) {
  const std::span<const BlockId> way =
      std::ranges::max(paths, {}, [](const Path& path) { return path.blocks.size(); }).blocks;
  for (Path& path : paths) {
    const auto first = static_cast<std::ptrdiff_t>(depth);
    const auto leaves = std::mismatch(path.blocks.begin() + first, path.blocks.end(), way.begin() + first).first;
    path.shared = static_cast<std::size_t>(leaves - path.blocks.begin());
  }
  std::ranges::sort(paths, {}, &Path::shared);
  while (paths.size() > 1) {
    const std::size_t here = paths.front().shared;
    parent = add_group(paths, here, parent);
    const auto stays = std::ranges::find_if(paths, [=](const Path& path) { return path.shared > here; });
    const auto leaving = static_cast<std::size_t>(stays - paths.begin());
    branch(paths.first(leaving), here, parent);
    paths = paths.subspan(leaving);
  }
}

std::int32_t PrefixGroups::add_group(std::span<const Path> members, std::size_t depth, std::int32_t parent) {
  const std::size_t first = seqs_.size();
  for (const Path& path : members) seqs_.push_back(path.run);
  std::ranges::sort(std::span(seqs_).subspan(first));
  offsets_.push_back(static_cast<std::int32_t>(seqs_.size()));
  shared_tokens_.push_back(static_cast<std::int32_t>(depth) * block_size_);
  parents_.push_back(parent);
  return size() - 1;
}

}  // namespace mortise
