package sync

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// inCI is where .ci/run runs, which has the time for everything.
var inCI = os.Getenv("CI") != ""

// TestMain has more tests at a time than processors, unless the command says how many: most wait for clocks. With -race, as
// in CI, they compute.
func TestMain(m *testing.M) {
	if !inCI {
		_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	m.Run()
}

// usual is the part of a search that is made where it is not to take its whole time.
func usual[N int | time.Duration](whole N) N {
	if inCI {
		return whole
	}
	return whole / 3
}
