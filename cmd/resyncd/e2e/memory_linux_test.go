package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// takes is how much a process takes, in bytes: now (VmRSS) or at most so far (VmHWM). What wait tells of its children
// would count the test's own memory, from before exec.
func takes(pid int, what string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(b), what+":")
	if !found {
		return 0, fmt.Errorf("process %d has no %s", pid, what)
	}
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10, err
}

// peakOf is the most memory that a process took until it ended, which closes ended.
func peakOf(pid int, ended <-chan struct{}) (peak int64) {
	for {
		select {
		case <-ended:
			return peak
		case <-time.After(10 * time.Millisecond):
			if now, err := takes(pid, "VmHWM"); err == nil {
				peak = max(peak, now)
			}
		}
	}
}
