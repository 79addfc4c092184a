//go:build linux

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// job is one mirror that a contender makes, and makes again when the Source has changed.
type job struct {
	*origin
	g       *rig
	mirror  string // the folder that it is given
	scratch string // for lists of its work, made before the clock starts
	workers int
}

// contender is a program that can do some of the work, with the flags that serve it best.
type contender struct {
	name string
	// program is what has to be installed, if it is not ours.
	program string
	// lacks is what it does not do, beside resyncd.
	lacks string
	// first makes the mirror; again, if it is another command, brings it up to date.
	first, again func(*job) []string
	// below is where the paths of URIs begin in the mirror.
	below func(*job) string
	env   []string
}

func (c *contender) installed() bool {
	_, err := exec.LookPath(c.program)
	return c.program == "" || err == nil
}

// run gives a contender its work and looks at what it did.
func (c *contender) run(j *job, again bool) cost {
	j.g.b.Helper()
	command := c.first
	if again && c.again != nil {
		command = c.again
	}
	took := j.g.measure(j, command(j), c.env...)
	below := j.mirror
	if c.below != nil {
		below = c.below(j)
	}
	took.faults = j.check(j.g.b, below)
	return took
}

// job is a fresh mirror for a contender.
func (g *rig) job(c *contender, o *origin, workers int) *job {
	return &job{origin: o, g: g, mirror: g.folder(c.name), scratch: g.folder("scratch"), workers: workers}
}

// write makes a file of a line, or a few, for each listed URI.
func (j *job) write(name string, line func(listed) string) string {
	j.g.b.Helper()
	var text bytes.Buffer
	for _, l := range j.listed {
		text.WriteString(line(l) + "\n")
	}
	file := filepath.Join(j.scratch, name)
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		j.g.b.Fatal(err)
	}
	return file
}

func (j *job) uris() string { return j.write("uris", func(l listed) string { return l.uri }) }

// resyncdOf is the resyncd of that path, such as one built before a change.
func resyncdOf(name, program string, env ...string) *contender {
	return &contender{
		name: name, env: env,
		first: func(j *job) []string {
			return []string{program, "sync", "--quiet", "--json", "--concurrency", strconv.Itoa(j.workers), j.base, j.mirror}
		},
		below: func(j *job) string { return filepath.Join(j.mirror, hostFolder(j.base)) },
	}
}

func yardstick(g *rig) *contender {
	return &contender{
		name: "yardstick", lacks: "retries, digests (it hashes, but compares nothing), deletes, state, syncs; is told every URI",
		first: func(j *job) []string {
			return []string{g.program("yardstick"), j.uris(), j.mirror, strconv.Itoa(j.workers)}
		},
	}
}

func curl() *contender {
	return &contender{
		name: "curl", program: "curl",
		lacks: "digests, deletes, state (a run fetches everything again), syncs; a cut leaves half a file under the final name; is told every URI",
		first: func(j *job) []string {
			config := j.write("curl", func(l listed) string {
				return fmt.Sprintf("url = %q\noutput = %q", l.uri, filepath.Join(j.mirror, filepath.FromSlash(l.path)))
			})
			return []string{"curl", "-q", "--silent", "--show-error", "--fail", "--parallel", "--parallel-immediate", "--http1.1",
				"--parallel-max", strconv.Itoa(min(j.workers, 300)), "--retry", "5", "--retry-all-errors", "--create-dirs", "--config", config}
		},
	}
}

func wget() *contender {
	return &contender{
		name: "wget", program: "wget", lacks: "digests, deletes, parallel requests, syncs; asks for every URI each time; a cut leaves half a file; is told every URI",
		first: func(j *job) []string {
			return []string{"wget", "--no-config", "--quiet", "--timestamping", "--force-directories", "--no-host-directories",
				"--waitretry=0", "--retry-on-http-error=429,500,502,503", "--directory-prefix", j.mirror, "--input-file", j.uris()}
		},
	}
}

func wget2() *contender {
	return &contender{
		name: "wget2", program: "wget2", lacks: "digests, deletes, retries of 5xx, syncs; asks for every URI each time; a cut leaves half a file; is told every URI",
		first: func(j *job) []string {
			return []string{"wget2", "--no-config", "--quiet", "--timestamping", "--no-robots", "--force-directories", "--no-host-directories",
				"--max-threads=" + strconv.Itoa(j.workers), "--directory-prefix", j.mirror, "--input-file", j.uris()}
		},
	}
}

// rclone asks for the head of each file first, which tells it next time what has changed.
func rclone() *contender {
	return &contender{
		name: "rclone", program: "rclone", first: func(j *job) []string { return rcloneCopy(j) },
		lacks: "digests, deletes (with a list of files), syncs; asks for every URI each time, new ones twice; is told every path",
	}
}

// rcloneNoHead saves that request, and fetches everything again the next time.
func rcloneNoHead() *contender {
	return &contender{
		name: "rclone-nohead", program: "rclone", first: func(j *job) []string { return rcloneCopy(j, "--http-no-head") },
		// Else it takes a file of the same name for the same file.
		again: func(j *job) []string { return rcloneCopy(j, "--http-no-head", "--ignore-times") },
		lacks: "digests, deletes (with a list of files), state (a run fetches everything again), syncs; is told every path",
	}
}

func rcloneCopy(j *job, more ...string) []string {
	n := strconv.Itoa(j.workers)
	return append([]string{"rclone", "--config=", "copy", "--http-url", j.base, ":http:", j.mirror, "--no-traverse", "--quiet",
		"--transfers", n, "--checkers", n, "--files-from-raw", j.write("paths", func(l listed) string { return l.path })}, more...)
}

func aria2() *contender {
	return &contender{
		name: "aria2", program: "aria2c", lacks: "digests (of lists), deletes, retries of 500 and 502, syncs; asks for every URI each time; is told every URI",
		first: func(j *job) []string {
			list := j.write("aria2", func(l listed) string { return l.uri + "\n out=" + l.path })
			return []string{"aria2c", "--no-conf", "--quiet", "-j" + strconv.Itoa(j.workers), "--file-allocation=none", "--deferred-input=true",
				"--max-download-result=0", "--download-result=hide", "--conditional-get=true", "--allow-overwrite=true",
				"--auto-file-renaming=false", "--remote-time=true", "--retry-wait=1", "-d", j.mirror, "-i", list}
		},
	}
}

// reference is the Python client of the people who wrote the specification. It wants a Source Description and a folder.
func reference() *contender {
	mode := func(how string) func(*job) []string {
		return func(j *job) []string {
			return []string{"resync-sync", how, "--delete", "--noauth", "--hash", "sha-256", strings.TrimSuffix(j.base, "/"), j.mirror}
		}
	}
	return &contender{
		name: "resync", program: "resync-sync", lacks: "parallel requests, resuming, syncs; stops at the first failure; a cut leaves half a file",
		first: mode("--baseline"), again: mode("--incremental"),
	}
}
