//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rig runs programs against each other as a user would: each contender is a process of its own with a fresh folder, all
// of them run in every round, and what is reported are medians of the ratios within a round. The Source shares the machine.
type rig struct {
	b        *testing.B
	dir      string
	programs string
	home     string // empty, so that no program finds settings of its user
	runs     int
	took     map[string][]cost
}

// newRig builds the programs.
func newRig(b *testing.B) *rig {
	b.Helper()
	g := &rig{b: b, dir: b.TempDir(), took: map[string][]cost{}}
	g.programs, g.home = filepath.Join(g.dir, "programs"), filepath.Join(g.dir, "home")
	if err := os.Mkdir(g.home, 0o700); err != nil {
		b.Fatal(err)
	}
	build := exec.CommandContext(b.Context(), "go", "build", "-o", g.programs+"/", "resyncd/cmd/resyncd", "resyncd/cmd/rssource", "resyncd/cmd/rshub",
		"resyncd/cmd/resyncd/e2e/testdata/speed/yardstick", "resyncd/cmd/resyncd/e2e/testdata/speed/measure")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the programs: %v\n%s", err, out)
	}
	return g
}

func (g *rig) program(name string) string { return filepath.Join(g.programs, name) }

// folder makes a new one. None is removed before the end, but by drop: some file systems make files slowly after many were
// removed.
func (g *rig) folder(name string) string {
	g.b.Helper()
	g.runs++
	dir := filepath.Join(g.dir, fmt.Sprintf("%04d-%s", g.runs, name))
	if err := os.Mkdir(dir, 0o700); err != nil {
		g.b.Fatal(err)
	}
	return dir
}

// drop removes a mirror where files are memory: a few of 1 GiB would fill that.
func (g *rig) drop(j *job) {
	g.b.Helper()
	if g.fileSystem() != "tmpfs" {
		return
	}
	if err := os.RemoveAll(j.mirror); err != nil {
		g.b.Fatal(err)
	}
}

// cost is what one run of a program cost.
type cost struct {
	Wall, CPU time.Duration
	Memory    int64 // at its peak, in bytes
	Exit      int

	requests  int64 // as resyncd counts them
	faults    faults
	complaint string // the end of what it wrote to stderr
}

// measure runs a program to its end. The clock knows only that.
func (g *rig) measure(j *job, args []string, env ...string) cost {
	g.b.Helper()
	log := filepath.Join(j.scratch, fmt.Sprintf("log%d", g.runs))
	g.runs++
	cmd := exec.CommandContext(g.b.Context(), g.program("measure"), append([]string{log}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.home, "TMPDIR=" + j.scratch}, env...)
	cmd.Stderr = os.Stderr
	line, err := cmd.Output()
	if err != nil {
		g.b.Fatalf("%v: %v", args, err)
	}
	var c cost
	if err := json.Unmarshal(line, &c); err != nil {
		g.b.Fatal(err)
	}
	out, err := os.ReadFile(log + ".out")
	if err != nil {
		g.b.Fatal(err)
	}
	var told struct{ Requests int64 }
	if json.Unmarshal(out, &told) == nil {
		c.requests = told.Requests
	}
	complaint, err := os.ReadFile(log + ".err")
	if err != nil {
		g.b.Fatal(err)
	}
	c.complaint = string(complaint[max(0, len(complaint)-600):])
	return c
}

// note keeps what a run in this round cost, under a name.
func (g *rig) note(name string, c cost) { g.took[name] = append(g.took[name], c) }

// ratio is the median of one over the other, round by round.
func (g *rig) ratio(name, over string, of func(*cost) float64) float64 {
	var ratios []float64
	for i := range min(len(g.took[name]), len(g.took[over])) {
		ratios = append(ratios, of(&g.took[name][i])/of(&g.took[over][i]))
	}
	return median(ratios)
}

func (g *rig) median(name string, of func(*cost) float64) float64 {
	var all []float64
	for i := range g.took[name] {
		all = append(all, of(&g.took[name][i]))
	}
	return median(all)
}

func median(all []float64) float64 {
	slices.Sort(all)
	switch n := len(all); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (all[n/2-1] + all[n/2]) / 2
	default:
		return all[n/2]
	}
}

func wall(c *cost) float64   { return float64(c.Wall.Microseconds()) / 1000 }
func cpu(c *cost) float64    { return float64(c.CPU.Microseconds()) / 1000 }
func memory(c *cost) float64 { return float64(c.Memory) / (1 << 20) }

// table logs the medians of everything that was noted, beside the time of one of them.
func (g *rig) table(over string) {
	g.b.Helper()
	g.b.ReportMetric(0, "ns/op") // of a whole round: it tells nothing
	var t strings.Builder
	fmt.Fprintf(&t, "\n%s\n| | ms | x %s | spread of that | CPU ms | x | peak MiB |\n| --- | --- | --- | --- | --- | --- | --- |\n", g.machine(), over)
	for _, name := range slices.Sorted(maps.Keys(g.took)) {
		var each []float64
		for i := range min(len(g.took[name]), len(g.took[over])) {
			each = append(each, wall(&g.took[name][i])/wall(&g.took[over][i]))
		}
		if len(each) == 0 {
			continue
		}
		fmt.Fprintf(&t, "| %s | %.0f | %.2f | %.2f-%.2f | %.0f | %.2f | %.0f |\n", name, g.median(name, wall), g.ratio(name, over, wall),
			slices.Min(each), slices.Max(each), g.median(name, cpu), g.ratio(name, over, cpu), g.median(name, memory))
	}
	g.say("%s", t.String())
}

// say prints at once and whole: of a benchmark's log only ten lines are shown.
func (g *rig) say(format string, args ...any) {
	g.b.Helper()
	fmt.Printf(format+"\n", args...)
}

// machine says where the numbers come from.
func (g *rig) machine() string {
	g.b.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		g.b.Fatal(err)
	}
	return fmt.Sprintf("Linux %s, %d CPUs, %s, files on %s", unix.ByteSliceToString(u.Release[:]), runtime.NumCPU(), runtime.Version(), g.fileSystem())
}

// fileSystem names that of the folders.
func (g *rig) fileSystem() string {
	g.b.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(g.dir, &fs); err != nil {
		g.b.Fatal(err)
	}
	kinds := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs"}
	if kind := kinds[int64(fs.Type)]; kind != "" {
		return kind
	}
	return fmt.Sprintf("file system %#x", fs.Type)
}

// begin starts a program in the background and returns the first lines of its output. It ends with the benchmark, or
// when the function that is returned is called.
func (g *rig) begin(lines int, args ...string) (said []string, end func()) {
	g.b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(g.b.Context()), args[0], args[1:]...)
	cmd.Env, cmd.Stderr = []string{"HOME=" + g.home}, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		g.b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		g.b.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}
	g.b.Cleanup(end)
	scan := bufio.NewScanner(out)
	for len(said) < lines && scan.Scan() {
		said = append(said, scan.Text())
	}
	if len(said) < lines {
		g.b.Fatalf("%v said only %q", args, said)
	}
	return said, end
}
