// nvFuser's heuristic plugin with wsched's choices. `wsched plugin build` puts in front what Python
// knows: the namespace wsched with VERSION, the constants, and the candidates NARROW and WIDE.
//
// The interface is nvFuser's: it makes one KernelConfig for each matmul with the exported
// makeConfig, fills in its own heuristic's choice and the problem, and calls configure().

#include <algorithm>

namespace wsched {

using nvfuser::matmul_heuristic_plugin::KernelConfig;

inline unsigned tiles_of(unsigned size, unsigned tile) {
  return (size + tile - 1) / tile;
}

// Cluster and order of a grid of tiles. nvFuser rounds the grid up to the groups of tiles that are
// visited together, so they divide it; and it visits whole clusters.
struct Grid {
  Grid(unsigned m, unsigned n)
      : cluster_m(n % 2 == 0 ? 1 : m % 2 == 0 ? 2 : 1),
        cluster_n(n % 2 == 0 ? 2 : 1),
        clusters(tiles_of(m, cluster_m) * double(tiles_of(n, cluster_n))),
        by_rows(group_of(m / cluster_m)),
        by_columns(group_of(n / cluster_n)) {}

  static unsigned group_of(unsigned count) {
    for (unsigned group : GROUPS) {
      if (count % group == 0) {
        return group;
      }
    }
    return 1;
  }

  unsigned cluster_m, cluster_n;
  double clusters;
  unsigned by_rows, by_columns;
};

// Microseconds of nvFuser's kernel: the formula of wsched/nvfuser/choice.py.
inline double predicted_us(
    const Candidate& c, double batch, unsigned m, unsigned n, unsigned k, double result_bytes) {
  const Grid grid(tiles_of(m, c.m), tiles_of(n, c.n));
  const unsigned wave = std::max(unsigned(SMS) / (grid.cluster_m * grid.cluster_n), 1u);
  const double rounds = double((uint64_t(grid.clusters * batch) + wave - 1) / wave);
  const double steps = tiles_of(k, c.k);
  const double tensor = 2.0 * c.m * c.n * c.k / FLOPS_PER_CYCLE;
  const double fill = (c.m + c.n) * c.k * OPERAND_BYTES / FILL_BYTES;
  const double latency = (LATENCY + fill + tensor + DRAIN) / c.stages;
  const double step = std::max({tensor + DRAIN, fill, latency});
  const double epilogue = LATENCY + ELEMENT * c.m * c.n / c.warpgroups * (result_bytes / 2);
  return START_US + rounds * (steps * step + epilogue) / CYCLES_PER_US;
}

// The fastest candidate, or nvFuser's usual tile if it is close.
template <size_t count>
const Candidate& choose(
    const Candidate (&candidates)[count], const KernelConfig::ProblemDescription& p, double bytes) {
  const double batch = std::max<uint32_t>(p.batch_size, 1);
  const Candidate* best = nullptr;
  const Candidate* usual = nullptr;
  double least = 0, of_usual = 0;
  for (const Candidate& c : candidates) {
    const double us = predicted_us(c, batch, p.m, p.n, p.k, bytes);
    if (!best || us < least) {
      best = &c;
      least = us;
    }
    if (c.m == USUAL.m && c.n == USUAL.n && c.k == USUAL.k && c.warpgroups == USUAL.warpgroups) {
      usual = &c;
      of_usual = us;
    }
  }
  return usual && of_usual <= least * (1 + GAIN) ? *usual : *best;
}

class Config : public KernelConfig {
 public:
  void configure() override {
    // Other operands than 16-bit ones, or an instruction of another architecture than Hopper's:
    // nvFuser's own choice stays.
    const char operand = problem.precision[0];
    const bool half = operand == 'T' || operand == 'H';
    if (!half || instruction_tile[0] != 64 || instruction_tile[2] != 16 || problem.m == 0 ||
        problem.n == 0 || problem.k == 0) {
      return;
    }
    const Candidate& c =
        problem.precision[2] == 'S' ? choose(WIDE, problem, 4) : choose(NARROW, problem, 2);
    cta_tile = {c.m, c.n, c.k};
    warp_tile = {uint16_t(c.m / c.warpgroups), c.n, c.k};
    instruction_tile = {64, c.n, 16};
    load_stages = c.stages;
    prefetch_gap = 1;
    splitk_factor = 1;
    circular_buffer_smem_read = false;
    async_gmem_load_operands = true;
    const Grid grid(tiles_of(problem.m, c.m), tiles_of(problem.n, c.n));
    cluster_dims = {uint16_t(grid.cluster_m), uint16_t(grid.cluster_n), 1};
    cta_order = grid.by_columns > grid.by_rows;
    grid_swizzle_factor = std::max(grid.by_rows, grid.by_columns);
  }
};

} // namespace wsched

extern "C" __attribute__((visibility("default")))
std::unique_ptr<nvfuser::matmul_heuristic_plugin::KernelConfig> makeConfig() {
  return std::unique_ptr<nvfuser::matmul_heuristic_plugin::KernelConfig>(new wsched::Config);
}

// What this library was made from; for people and for tests.
extern "C" __attribute__((visibility("default"))) const char* wsched_plugin_version() {
  return wsched::VERSION;
}
