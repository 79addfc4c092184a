package sync

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What the models of odd Sources have in common: a search that draws histories for as long as it may, and names for what is odd.

// evBudget is how long a search takes: RESYNCD_EVIDENCE_TIME, for a long one, or d where all are made.
func evBudget(d time.Duration) time.Duration {
	if asked, err := time.ParseDuration(os.Getenv("RESYNCD_EVIDENCE_TIME")); err == nil {
		return asked
	}
	return usual(d)
}

// evOddities is how many oddities come together at the most: what only four of them bring to light is for a long search to find, not
// for somebody who changed something else.
func evOddities() int {
	if os.Getenv("RESYNCD_EVIDENCE_TIME") == "" {
		return 2
	}
	return 4
}

// oddSearch draws histories, each in a folder of its own, until the time is over. The short form draws the same ones each time: whoever
// changed something else must not meet what only a long search finds.
func oddSearch(t *testing.T, budget time.Duration, tally fmt.Stringer, history func(rt *rapid.T, folder string)) {
	end := time.Now().Add(budget)
	folder, failing, histories, found := ramDir(t), false, 0, 0
	defer func() {
		if failing {
			t.Logf("found in history %d", found)
		}
		t.Logf("%d histories, %s", histories, tally)
	}()
	if os.Getenv("RESYNCD_EVIDENCE_TIME") == "" {
		sown, input := rand.NewChaCha8(sha256.Sum256([]byte(t.Name()))), make([]byte, 1<<18)
		check := rapid.MakeFuzz(func(rt *rapid.T) { history(rt, filepath.Join(folder, fmt.Sprint(histories))) })
		for time.Now().Before(end) && !t.Failed() {
			histories++
			_, _ = sown.Read(input) // whose error is always nil
			t.Run(fmt.Sprint(histories), func(t *testing.T) { check(t, input) })
		}
		return
	}
	for time.Now().Before(end) && !t.Failed() {
		rapid.Check(t, func(rt *rapid.T) {
			if !failing && time.Now().After(end) {
				return // what is left of the checks passes unseen; a failure is shrunk without a limit of ours
			}
			if histories++; !failing {
				found = histories
			}
			done := false
			defer func() { failing = failing || !done || rt.Failed() }()
			history(rt, filepath.Join(folder, fmt.Sprint(histories)))
			done = true
		})
	}
}

// oddNamesOf are the names of what may be odd: the fields of a struct of switches.
func oddNamesOf[T any]() (names []string) {
	for f := range reflect.TypeFor[T]().Fields() {
		names = append(names, f.Name)
	}
	return names
}

// setOdd switches some on or off, by their names with commas between; "" is none.
func setOdd[T any](o *T, list string, on bool) {
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		f := reflect.ValueOf(o).Elem().FieldByName(name)
		if !f.IsValid() {
			panic("no such oddity: " + name)
		}
		f.SetBool(on)
	}
}

func oddString[T any](o *T) string {
	var on []string
	for _, name := range oddNamesOf[T]() {
		if reflect.ValueOf(o).Elem().FieldByName(name).Bool() {
			on = append(on, name)
		}
	}
	return strings.Join(on, ",")
}
