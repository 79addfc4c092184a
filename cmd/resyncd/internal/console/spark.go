package console

import (
	"math"
	"strconv"
	"strings"
)

const (
	sparkStep   = 4
	sparkHeight = 18
)

// bars draws values above 0 as upright strokes: the d of an SVG path.
func bars(values []float64, step, height float64) string {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for i, v := range values {
		if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		b.WriteByte('M')
		b.WriteString(coord(float64(i)*step + step/2))
		b.WriteByte(' ')
		b.WriteString(coord(height))
		b.WriteByte('v')
		b.WriteString(coord(-max(1, v/most*(height-1)))) // no 0
	}
	return b.String()
}

// line breaks where a value is below 0; one alone is a dot.
func line(values []float64, step, height float64) string {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	if most == 0 {
		most = 1
	}
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
		if run == 0 {
			b.WriteByte('M')
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(coord(float64(i)*step + step/2))
		b.WriteByte(' ')
		b.WriteString(coord(height - 1 - v/most*(height-2)))
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

// mean leaves out values below 0; -1 for none.
func mean(values []float64) float64 {
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
