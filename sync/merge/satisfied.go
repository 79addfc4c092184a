package merge

import (
	"cmp"
	"encoding/hex"
	"strings"

	"resyncd/store"
)

// Answer compares file and want.
type Answer uint8

// The answers: HashLocally needs the file's bytes, Revalidate a conditional request.
const (
	No Answer = iota
	Yes
	HashLocally
	Revalidate
)

// Satisfied compares by length and strongest digest (F49, F50), else by version.
func Satisfied(w *store.Want, h *store.Have) Answer {
	switch {
	case w.State == store.WantAbsent:
		if h.State == store.HavePresent {
			return No
		}
		return Yes
	case w.State == store.WantNone:
		return Yes
	case h.State == store.HaveNone:
		return No
	case w.State == store.WantAsk:
		return Revalidate
	case w.Length >= 0 && w.Length != h.Length:
		return No
	case w.Digests != "":
		return sameBytes(w.Digests, h)
	}
	switch Relate(h.Version, w.Version) {
	case Newer, SamePlace:
		return Yes
	case Unordered:
		// A list read again at one instant may tell another event.
		if w.Generation == 0 && h.Version.From == w.Version.From && h.Version.Until == w.Version.Until &&
			Dated(w.Version) {
			return Yes
		}
	}
	return Revalidate
}

// DigestOf is the file's SHA-256.
func DigestOf(h *store.Have) string { return "sha-256:" + hex.EncodeToString(h.SHA256[:]) }

func sameBytes(digests string, h *store.Have) Answer {
	strongest, _, _ := strings.Cut(digests, " ")
	alg, sum, _ := strings.Cut(strongest, ":")
	checked, _, _ := strings.Cut(h.Checked, ":")
	switch {
	case alg == "sha-256":
		var buf [64]byte
		return answer(string(hex.AppendEncode(buf[:0], h.SHA256[:])) == sum)
	case alg == checked:
		return answer(h.Checked == strongest)
	}
	return HashLocally
}

func answer(ok bool) Answer {
	if ok {
		return Yes
	}
	return No
}

// CarryOver accepts the old file for a baseline. A change entry never carries over.
func CarryOver(old, new *store.Want, h *store.Have) bool {
	return old != nil && new.Generation > 0 && new.State == store.WantPresent && old.State == store.WantPresent &&
		new.Digests == "" && new.LastMod.Known() && new.LastMod == old.LastMod &&
		(new.Length < 0 || new.Length == h.Length) && h.State != store.HaveNone && Satisfied(old, h) == Yes
}

// Effective is the deciding want of all sets; a held removal stops every removal.
func Effective(wants []store.Want) *store.Want {
	var there, gone *store.Want
	held := false
	for i := range wants {
		w := &wants[i]
		switch {
		case w.State == store.WantNone || w.Refused != "":
		case w.Held:
			held = true
		case w.State == store.WantAbsent:
			gone = newest(gone, w)
		default:
			there = newest(there, w)
		}
	}
	if there != nil {
		return there
	}
	if held {
		return nil
	}
	return gone
}

func newest(a, b *store.Want) *store.Want {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	digests := func(w *store.Want) int { return min(1, len(w.Digests)) }
	if cmp.Or(
		cmp.Compare(a.Version.Until, b.Version.Until), cmp.Compare(a.Version.From, b.Version.From),
		cmp.Compare(digests(a), digests(b)), cmp.Compare(b.SetID, a.SetID),
	) >= 0 {
		return a
	}
	return b
}
