package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"resyncd/cmd/resyncd/internal/exit"
)

// TestHardPoints kills a catch-up before its N-th write, sync, rename, unlink or database write, and fails that one
// instead, for N = 1, 2, 3 … until a run passes untouched (F2, F6, F10): what is there is always what was published, a run
// that says 0 is in step, and the next run ends in step without leftovers. The short form takes some of the points.
func TestHardPoints(t *testing.T) {
	t.Parallel()
	killedAndFailed(t, points)
}

// killedAndFailed tries both: the process dies before a deed, and the deed fails.
func killedAndFailed(t *testing.T, try func(t *testing.T, how func(deed) ruling)) {
	for name, how := range map[string]func(deed) ruling{
		"kill": func(deed) ruling { return die },
		"fail": deed.failure,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, how)
		})
	}
}

func points(t *testing.T, how func(deed) ruling) {
	o := newOrdeal(t, 8, "", "")
	o.catchUp()
	template := filepath.Join(o.dir, "template")
	o.copyTo(template)
	before := o.annals.living()
	o.put("d0/r000.txt")
	o.put("d3/r003.txt")
	o.put("fresh/one.txt")
	o.src.Delete("d1/r001.txt")
	o.src.Delete("d1/r006.txt")

	step := int64(1)
	if !soak {
		o.restore(template)
		all := o.inject(0, nil)
		step = max(1, all.seen.Load()/5)
	}
	tried, byKind := 0, map[string]int{}
	for n := int64(1); ; n += step {
		o.restore(template)
		c := o.inject(n, how)
		if c.hit.Load() == nil {
			break
		}
		tried++
		hit := *c.hit.Load()
		kind := hit.kind
		if hit.ofState() {
			kind = "database " + kind
		}
		byKind[kind]++
		o.unharmed(before)
		o.catchUp()
		o.tidied()
		if t.Failed() {
			t.Fatalf("at deed %d: %s %s", n, hit.kind, strings.TrimPrefix(hit.path, o.dir))
		}
	}
	t.Logf("%d points, 0 violations: %v", tried, byKind)
}

// inject runs a catch-up of which the N-th deed is not as usual.
func (o *ordeal) inject(nth int64, how func(deed) ruling) *counted {
	o.t.Helper()
	c := &counted{nth: nth, how: how}
	cmd := exec.Command("resyncd-watched", "sync", "--quiet", "--retry-for", "1s", "lib")
	watch(o.t, cmd, []string{o.data, filepath.Dir(o.mirror)}, c.judge, o.begin)
	p := o.daemon
	<-p.ended
	o.daemon = nil
	said, code := p.err.String(), p.cmd.ProcessState.ExitCode()
	switch {
	case strings.Contains(said, "panic:"), strings.Contains(said, "DATA RACE"), code == exit.Misused, code == exit.Held:
		o.t.Errorf("the run ended with %d:\n%s", code, said)
	case code == exit.Done:
		o.annals.equals(o.t, o.mirror)
	}
	return c
}

// catchUp runs undisturbed and insists on being in step, by the auditor's word too.
func (o *ordeal) catchUp() {
	o.t.Helper()
	if out, code := o.command("sync", "--quiet", "--retry-for", "1s", "lib"); code != exit.Done {
		o.t.Errorf("a run ended with %d:\n%s", code, out)
	}
	o.agreed()
}

// unharmed: every file holds what was published, and what was there and was not deleted is there.
func (o *ordeal) unharmed(before map[string][32]byte) {
	o.t.Helper()
	w := &witness{annals: o.annals, mirror: o.mirror, last: map[string]int{}}
	for _, uri := range o.annals.uris() {
		w.read(uri)
		_, had := before[uri]
		if _, err := os.Stat(pathIn(o.mirror, uri)); errors.Is(err, fs.ErrNotExist) && had && !o.annals.goneSince(uri, 0) {
			o.t.Errorf("%s is gone", uri)
		}
	}
	for _, wrong := range w.wrong {
		o.t.Error(wrong)
	}
}

// tidied: nothing is left in the stage, and rows and files of the trash agree.
func (o *ordeal) tidied() {
	o.t.Helper()
	reserved := filepath.Join(o.mirror, ".resyncd")
	for _, path := range leftInStage(o.mirror) {
		o.t.Errorf("left in the stage: %s", path)
	}
	trash, err := os.ReadDir(filepath.Join(reserved, "trash"))
	if err != nil {
		o.t.Error(err)
	}
	out, code := o.command("ls", "--json", "--trash", "lib")
	if rows := strings.Count(out, "\n"); code != exit.Done || rows != len(trash) {
		o.t.Errorf("%d files in the trash, told of (%d):\n%s", len(trash), code, out)
	}
}

// copyTo keeps mirror and state as they are; restore brings them back.
func (o *ordeal) copyTo(folder string) {
	o.t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		o.t.Fatal(err)
	}
	o.run("cp", "-a", o.data, filepath.Dir(o.mirror), folder)
}

func (o *ordeal) restore(folder string) {
	o.t.Helper()
	for _, at := range []string{o.data, filepath.Dir(o.mirror)} {
		if err := os.RemoveAll(at); err != nil {
			o.t.Fatal(err)
		}
		o.run("cp", "-a", filepath.Join(folder, filepath.Base(at)), at)
	}
}

// run runs a command of the system.
func (o *ordeal) run(name string, args ...string) {
	o.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		o.t.Fatalf("%s %s: %v\n%s", name, fmt.Sprint(args), err, out)
	}
}

// leftInStage is what lies in the stage area of a mirror beside the empty file that a daemon has ready for the next push.
func leftInStage(mirror string) (left []string) {
	spare := false
	_ = filepath.WalkDir(filepath.Join(mirror, ".resyncd", "stage"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(d.Name(), "lock") {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Size() == 0 && !spare {
			spare = true
			return nil
		}
		left = append(left, path)
		return nil
	})
	return left
}
