//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// packages fetches every package of a dump, which has the Source make them: others have made theirs before anybody asks.
func (g *rig) packages(o *origin, dump string) (files []string) {
	g.b.Helper()
	dir := g.folder("packages")
	docs := []string{o.base + ".resourcesync/" + dump}
	for len(docs) > 0 {
		var doc struct {
			Parts    []string `xml:"sitemap>loc"`
			Packages []string `xml:"url>loc"`
		}
		if err := getXML(g.b.Context(), docs[0], &doc); err != nil {
			g.b.Fatal(err)
		}
		docs = append(docs[1:], doc.Parts...)
		for _, uri := range doc.Packages {
			file := filepath.Join(dir, fmt.Sprintf("%05d.zip", len(files)))
			if err := save(g.b.Context(), uri, file); err != nil {
				g.b.Fatal(err)
			}
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		g.b.Fatal("the Source offers no packages")
	}
	return files
}

func save(ctx context.Context, uri, file string) error {
	return fetched(ctx, uri, func(body io.Reader) error {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(f, body)
		return err
	})
}

// throughPackages are resyncd with packages and without.
func throughPackages(g *rig) []*contender {
	return []*contender{
		resyncdOf("packages", g.program("resyncd")),
		resyncdOf("gets", g.program("resyncd"), "RESYNCD_DEFAULTS_DUMPS=off"),
	}
}

// BenchmarkSpeedPackages is a first catch-up through packages beside one through single requests, 20 ms away, and beside
// unzip of the same packages, on loopback.
func BenchmarkSpeedPackages(b *testing.B) {
	dumps := []string{"--resources", "20000", "--size", "4096", "--dumps", "on", "--dump-size", "5000"}
	b.Run("latency", func(b *testing.B) {
		g := newRig(b)
		o := g.source(append(dumps, "--fault", "latency=20ms,doc-latency=20ms")...)
		g.packages(o, "resourcedump.xml")
		all := throughPackages(g)
		for b.Loop() {
			for _, c := range all {
				g.one(c, o)
			}
		}
		g.table("packages")
		b.ReportMetric(g.ratio("gets", "packages", wall), "x-faster")
		b.ReportMetric(g.median("packages", memory), "MiB")
	})
	b.Run("unzip", func(b *testing.B) {
		unzip, err := exec.LookPath("unzip")
		if err != nil {
			b.Skip("unzip is not installed")
		}
		g := newRig(b)
		o := g.source(dumps...)
		files := g.packages(o, "resourcedump.xml")
		all := throughPackages(g)
		for b.Loop() {
			for _, c := range all {
				g.one(c, o)
			}
			j := g.job(&contender{name: "unzip"}, o, 1)
			script := fmt.Sprintf(`for f in %s/*.zip; do %s -q -o "$f" -d %s || exit 1; done`, filepath.Dir(files[0]), unzip, j.mirror)
			took := g.measure(j, []string{"/bin/sh", "-c", script})
			if took.Exit != 0 {
				b.Fatalf("unzip: exit code %d: %s", took.Exit, took.complaint)
			}
			g.note("unzip", took)
			g.drop(j)
		}
		g.table("unzip")
		b.ReportMetric(g.ratio("packages", "unzip", wall), "x-unzip")
		b.ReportMetric(g.ratio("gets", "packages", wall), "x-faster")
	})
}

// one has a contender make a mirror of its own.
func (g *rig) one(c *contender, o *origin) {
	g.b.Helper()
	j := g.job(c, o, 16)
	took := c.run(j, false)
	g.right(c, took)
	g.note(c.name, took)
	g.drop(j)
}

// BenchmarkSpeedChangeDump is a backlog of 5,000 small changes, 20 ms away, through Change Dumps beside one through single
// requests.
func BenchmarkSpeedChangeDump(b *testing.B) {
	const files, changed = 10000, 5000
	g := newRig(b)
	t := g.tree(files)
	o := g.source("--dir", t.dir, "--scan-every", "2s", "--dumps", "on", "--fault", "latency=20ms,doc-latency=20ms")
	all := throughPackages(g)
	jobs := map[*contender]*job{}
	for _, c := range all {
		jobs[c] = g.job(c, o, 16)
		g.right(c, c.run(jobs[c], false))
	}
	told := 0
	for b.Loop() {
		t.change(changed)
		told += changed
		g.changes(o, told)
		g.packages(o, "changedump.xml")
		for _, c := range all {
			took := c.run(jobs[c], true)
			g.right(c, took)
			g.note(c.name, took)
		}
	}
	g.table("packages")
	b.ReportMetric(g.ratio("gets", "packages", wall), "x-faster")
}
