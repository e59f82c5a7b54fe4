"""What bench/cpu_profile.py makes of a profile; none is recorded here, since machines need not have libprofiler."""
import re
import struct
import subprocess
import sys

import pytest

from conftest import MORTISE, SOURCE

sys.path.insert(0, str(SOURCE / "bench"))
import cpu_profile  # noqa: E402


def write_profile(path, stacks):
    """gperftools' legacy format: header, (count, depth, addresses), trailer."""
    words = [0, 3, 0, 1000, 0]
    for count, addresses in stacks:
        words += [count, len(addresses), *addresses]
    path.write_bytes(struct.pack(f"<{len(words) + 3}Q", *words, 0, 1, 0) + b"7f00-7f01 r-xp the map of a process that has gone\n")


def test_samples_end_at_the_trailer(tmp_path):
    write_profile(tmp_path / "a.prof", [(3, [0x10, 0x20]), (1, [0x30])])
    assert list(cpu_profile.samples(tmp_path / "a.prof")) == [(3, (0x10, 0x20)), (1, (0x30,))]


@pytest.mark.parametrize("stack, family", [
    (["void isa_avx2::run<PackedBf16, float>(mortise::cpu::LinearArgs const&)", "ThreadPool::take_tasks(int)"], "linear"),
    (["void isa_amx::run<4>(mortise::cpu::LinearIntArgs const&)"], "linear"),
    (["memcpy", "void isa_avx2::attend<float>(mortise::cpu::SpanUnit const&)", "ThreadPool::work(int)"], "attention"),
    (["void isa_avx2::write_rows<float>(mortise::cpu::KvWrite const&)"], "append, rope"),
    (["void isa_avx2::rms_norm<float>(mortise::cpu::NormArgs const&, unsigned long)"], "norm"),
    (["void isa_avx2::gated<float>(mortise::cpu::Activation, float const*)"], "activation"),
    (["isa_avx2::sample(mortise::cpu::SampleRow const&)"], "sampling"),
    (["mortise::RowEvaluator::draw(mortise_step const&, mortise::RowEvaluator::Chunk&)"], "sampling"),
    (["syscall", "mortise::cpu::ThreadPool::wait_for_work(unsigned int)"], "pool waiting"),
    (["malloc", "mortise::Engine::step()"], "engine"),
    (["mortise::cpu::(anonymous namespace)::Packer::run()::{lambda(int, int)#1}", "ThreadPool::take_tasks(int)"], "load"),
    (["mortise::bench::(anonymous namespace)::avx2_fma_rounds(unsigned long)"], "limits"),
    (["clock_gettime"], "other"),
])
def test_a_stack_belongs_to_its_innermost_family(stack, family):
    assert cpu_profile.family_of(stack) == family


# Copies of plugins that the loader made and deleted are read from the build's own file.
def test_functions_are_found_in_the_files_of_the_build(tmp_path):
    nm = subprocess.run(["nm", "-C", "--defined-only", MORTISE], capture_output=True, text=True).stdout
    address = int(re.search(r"^(\w+) [tT] main$", nm, re.M)[1], 16)
    binary = cpu_profile.Binary(MORTISE)
    start, virtual, _ = next(s for s in binary.segments if s[1] <= address < s[1] + s[2])
    (tmp_path / "a.maps").write_text(f"100000-10000000 r-xp 00000000 fe:00 77 /elsewhere/mortise\n"
                                     f"20000000-30000000 r-xp 00000000 fe:00 78 /tmp/mortise-12-0-cpu-a1B2c3.so (deleted)\n")
    symbols = cpu_profile.Symbols(tmp_path / "a.maps", MORTISE.parent)
    assert symbols.function(0x100000 + address - virtual + start) == "main"
    assert symbols.file_of("mortise-12-0-cpu-a1B2c3.so (deleted)", "/tmp/x") == MORTISE.parent / "cpu.so"
    assert symbols.function(0x50) == "?"


def test_measuring_and_loading_are_no_part_of_the_shares(capsys):
    families = {"linear": 75, "norm": 25, "limits": 300, "load": 600}
    counters = {name: cpu_profile.collections.Counter({name + "()": count}) for name, count in families.items()}
    cpu_profile.print_table(cpu_profile.collections.Counter(families), counters, cpu_profile.collections.Counter(head=1, layers=3), 0.5)
    text = capsys.readouterr().out
    assert "100 samples of the engine; 900 of measuring" in text
    assert "75.0 %  linear   of it the head: 25 %" in text


def test_a_missing_profiler_is_named(tmp_path):
    done = subprocess.run([sys.executable, SOURCE / "bench/cpu_profile.py", "--preload", "libnothing.so", "--", "true"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "is there a libnothing.so? (Debian: apt install libgoogle-perftools4)" in done.stderr
