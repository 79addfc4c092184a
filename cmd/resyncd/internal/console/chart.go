package console

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"resyncd/store"
)

// chart is the last weeks of a Source.
type chart struct {
	Width                   int // in the units of the paths
	Changes, Failed         string
	Latency                 string
	From, Until             time.Time
	Sum                     store.Point
	ChangesMost, FailedMost int64 // in one Slot
	Slot                    time.Duration
	Days                    []chartDay // newest first
}

type chartDay struct {
	Day string
	store.Point
}

const (
	chartDays   = 30
	chartSlots  = 180
	chartStep   = 4
	chartHeight = 48
)

func newChart(now time.Time, points []store.Point) *chart {
	slot := chartDays * day / chartSlots
	until := now.UTC().Truncate(slot).Add(slot)
	c := &chart{Width: chartSlots * chartStep, From: until.Add(-chartDays * day), Until: until, Slot: slot}
	slots, days := make([]store.Point, chartSlots), map[string]*store.Point{}
	for i := range points {
		p := &points[i]
		at := p.At.Time()
		if at.Before(c.From) || !at.Before(until) {
			continue
		}
		slots[int(at.Sub(c.From)/slot)].Add(p)
		c.Sum.Add(p)
		name := at.Format(time.DateOnly)
		if days[name] == nil {
			days[name] = &store.Point{}
		}
		days[name].Add(p)
	}
	changes, failed, mean := make([]float64, chartSlots), make([]float64, chartSlots), make([]float64, chartSlots)
	for i, p := range slots {
		changes[i], failed[i], mean[i] = float64(p.Changes), float64(p.Failed), latency(p)
		c.ChangesMost, c.FailedMost = max(c.ChangesMost, p.Changes), max(c.FailedMost, p.Failed)
	}
	c.Changes, c.Failed, c.Latency = bars(changes, chartStep, chartHeight), bars(failed, chartStep, chartHeight),
		line(mean, chartStep, chartHeight)
	for t := until; !t.Before(c.From); t = t.Add(-day) {
		name := t.Format(time.DateOnly)
		if p := days[name]; p != nil {
			c.Days = append(c.Days, chartDay{Day: name, Point: *p})
		}
	}
	return c
}

// latency is the mean push latency in seconds, below 0 without pushes.
func latency(p store.Point) float64 {
	if p.Pushes == 0 {
		return -1
	}
	return float64(p.Latency) / float64(p.Pushes) / 1e6
}

// longest is the longest push latency in seconds, below 0 without pushes.
func longest(p store.Point) float64 {
	if p.Pushes == 0 {
		return -1
	}
	return float64(p.LatencyMost) / 1e6
}

const (
	sparkStep   = 4
	sparkHeight = 18
)

// bars draws values above 0 as upright strokes: the d of an SVG path.
func bars(values []float64, step, height float64) string {
	most := slices.Max(append(values, 0))
	var b strings.Builder
	for i, v := range values {
		if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		stroke := -max(1, v/most*(height-1)) // no 0
		b.WriteString("M" + coord(float64(i)*step+step/2) + " " + coord(height) + "v" + coord(stroke))
	}
	return b.String()
}

// line breaks where a value is below 0; one alone is a dot.
func line(values []float64, step, height float64) string {
	most := cmp.Or(slices.Max(append(values, 0)), 1)
	var b strings.Builder
	run := 0
	for i, v := range values {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			if run == 1 {
				b.WriteString("h0")
			}
			run = 0
			continue
		}
		before := " "
		if run == 0 {
			before = "M"
		}
		b.WriteString(before + coord(float64(i)*step+step/2) + " " + coord(height-1-v/most*(height-2)))
		run++
	}
	if run == 1 {
		b.WriteString("h0")
	}
	return b.String()
}

func coord(x float64) string { return strconv.Itoa(int(math.Round(x))) }

func percent(x float64) string {
	return strconv.FormatFloat(math.Round(min(max(x, 0), 100)*100)/100, 'f', -1, 64) + "%"
}

// average leaves out values below 0; -1 for none.
func average(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if v >= 0 {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return -1
	}
	return sum / float64(n)
}
