package source

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
)

// Synthetic describes made-up resources. Each body is text and a pure function of (Seed, number, version), so none is
// kept.
type Synthetic struct {
	// Resources is how many there are at the beginning, numbered from 1.
	Resources int
	// Rate is the number of changes a second: three of five are updates, the others keep the number of resources near
	// Resources.
	Rate float64
	// Seed makes another world.
	Seed uint64
	// Size is the length of every body. 0: a mix from 100 bytes to 32 KiB, on average 3 KiB.
	Size int64
}

func (o *Synthetic) check() error {
	if o.Resources < 0 || o.Resources > 100_000_000 {
		return fmt.Errorf("%d resources: want 0 to 100,000,000", o.Resources)
	}
	if o.Rate != 0 && !(o.Rate >= 1e-6 && o.Rate <= 1e6) {
		return fmt.Errorf("a rate of %g changes a second: want 0, or 0.000001 to 1,000,000", o.Rate)
	}
	if o.Size < 0 {
		return fmt.Errorf("a size of %d bytes", o.Size)
	}
	return nil
}

// Name is the name of a resource: res/000001 and so on.
func (Synthetic) Name(number int) string {
	digits := strconv.Itoa(number)
	return "res/" + "000000"[:max(0, 6-len(digits))] + digits
}

// Length is the length of a version of a resource. Versions are numbered from 0.
func (o Synthetic) Length(number int, version int64) int64 {
	if o.Size > 0 {
		return o.Size
	}
	h := o.key(number, version)
	var low, high uint64
	switch pick := h >> 32 % 100; {
	case pick < 70:
		low, high = 100, 2<<10
	case pick < 95:
		low, high = 2<<10, 8<<10
	default:
		low, high = 8<<10, 32<<10
	}
	return int64(low + h&0xffffffff%(high-low))
}

// Content is a version of a resource.
func (o Synthetic) Content(number int, version int64) io.ReadSeeker {
	return io.NewSectionReader(letters(o.key(number, version)), 0, o.Length(number, version))
}

func (o Synthetic) key(number int, version int64) uint64 {
	return mix(mix(mix(o.Seed)+uint64(number)) + uint64(version))
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// letters reads as letters from a to p with a line break after every 63rd, without end.
type letters uint64

// ReadAt never fails.
func (key letters) ReadAt(p []byte, offset int64) (int, error) {
	var word [8]byte
	for n := 0; n < len(p); {
		at := uint64(offset) + uint64(n)
		binary.LittleEndian.PutUint64(word[:], key.word(at/8))
		n += copy(p[n:], word[at%8:])
	}
	return len(p), nil
}

// word is eight characters at once.
func (key letters) word(i uint64) uint64 {
	w := mix(uint64(key)+i)&0x0f0f0f0f0f0f0f0f + 0x6161616161616161
	if i%8 == 7 {
		w = w&^(0xff<<56) | '\n'<<56
	}
	return w
}
