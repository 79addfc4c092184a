package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkPushProcesses is goal 11 of performance.md among processes, as a user has them: rssource, which makes 50 changes a second,
// rshub, resyncd serve, and this one, which the kernel tells when a file gets its name. What is reported is the time from a
// change's datetime in the Change List to the name of its file. One iteration is a second.
func BenchmarkPushProcesses(b *testing.B) {
	g := newRig(b)
	hub, _ := g.begin(1, g.program("rshub"), "--listen", freePort, "--state", filepath.Join(g.folder("hub"), "hub.db"),
		"--allow", "127.0.0.0/8", "--log-level", "error")
	said, _ := g.begin(2, g.program("rssource"), "--listen", freePort, "--log-level", "error", "--resources", "1000", "--size", "1024",
		"--rate", "50", "--hub", hub[0])
	base := said[0]
	dir := g.folder("daemon")
	callback := listening(b)
	at := callback.Addr().String()
	_ = callback.Close() // its port is the daemon's now
	file := filepath.Join(dir, "resyncd.yaml")
	settings := fmt.Sprintf("data_dir: %[1]s/data\nmirror: %[1]s/mirror\ncallback: {listen: %[2]q, base_url: http://%[2]s/cb}\nconsole: {listen: off}\nnetwork: {allow: [127.0.0.0/8]}\n"+
		"sources:\n  - {name: rs, url: %[3]q}\n", dir, at, base)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		b.Fatal(err)
	}
	g.begin(1, g.program("resyncd"), "serve", "--config", file, "--log-level", "error")
	folder := ""
	if err := poll("the baseline is there", func() (bool, error) {
		found, err := filepath.Glob(filepath.Join(dir, "mirror", "rs", "*", "res", "*"))
		if len(found) > 900 {
			folder = filepath.Dir(found[0])
		}
		return folder != "", err
	}); err != nil {
		b.Fatal(err)
	}
	names := watchNames(b, folder)
	settle := time.After(3 * time.Second) // the channel is active, and the gap before the first push looked into
	for settled := false; !settled; {
		select {
		case <-names:
		case <-settle:
			settled = true
		}
	}
	var files []named
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for b.Loop() {
		for second := false; !second; {
			select {
			case n := <-names:
				files = append(files, n)
			case <-ticker.C:
				second = true
			}
		}
	}
	changed := g.changedAt(base)
	var took []time.Duration
	for _, f := range files {
		var last time.Time
		for _, at := range changed[f.name] {
			if at.Before(f.at) {
				last = at
			}
		}
		if !last.IsZero() {
			took = append(took, f.at.Sub(last))
		}
	}
	if len(took) < b.N*50/2 {
		b.Fatalf("%d files got a name and %d of them a time in %d s of 50 changes each; %d changed", len(files), len(took), b.N, len(changed))
	}
	reportTimes(b, "file", took)
}

// changedAt is when the files of a Source changed, oldest first, as its Change Lists tell.
func (g *rig) changedAt(base string) map[string][]time.Time {
	g.b.Helper()
	var index struct {
		Parts []string `xml:"sitemap>loc"`
	}
	if err := getXML(g.b.Context(), base+".resourcesync/changelist.xml", &index); err != nil {
		g.b.Fatal(err)
	}
	at := map[string][]time.Time{}
	for _, part := range index.Parts {
		var list struct {
			URLs []struct {
				Loc string `xml:"loc"`
				MD  struct {
					Datetime time.Time `xml:"datetime,attr"`
				} `xml:"http://www.openarchives.org/rs/terms/ md"`
			} `xml:"url"`
		}
		if err := getXML(g.b.Context(), part, &list); err != nil {
			g.b.Fatal(err)
		}
		for _, u := range list.URLs {
			name := u.Loc[strings.LastIndexByte(u.Loc, '/')+1:]
			at[name] = append(at[name], u.MD.Datetime)
		}
	}
	return at
}
