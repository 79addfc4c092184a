package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"resyncd/destination"
)

// Push says whether channels are subscribed.
type Push string

// The values of Policy.Push.
const (
	PushAuto     Push = "auto"
	PushOff      Push = "off"
	PushRequired Push = "required"
)

// HubSecret says whether hubs are given a secret to sign with.
type HubSecret string

// The values of Policy.Secret.
const (
	SecretAuto HubSecret = "auto"
	SecretOff  HubSecret = "off"
)

// Signature names the weakest signature algorithm that is accepted.
type Signature string

// The values of Policy.MinSignature, weakest first.
const (
	SignatureSHA1   Signature = "sha1"
	SignatureSHA256 Signature = "sha256"
	SignatureSHA384 Signature = "sha384"
	SignatureSHA512 Signature = "sha512"
)

// Deletion says what happens to the file of a resource that is gone.
type Deletion string

// The values of Policy.Delete.
const (
	DeleteTrash Deletion = "trash"
	DeleteKeep  Deletion = "keep"
	DeleteNow   Deletion = "now"
)

// Dumps says whether a baseline may use Resource Dumps.
type Dumps string

// The values of Policy.Dumps; this version brings only DumpsAuto.
const (
	DumpsAuto   Dumps = "auto"
	DumpsOff    Dumps = "off"
	DumpsAlways Dumps = "always"
)

// Durability says what of the mirror survives a power loss.
type Durability string

// The values of Policy.Durability.
const (
	DurabilityFile Durability = "file"
	DurabilityNone Durability = "none"
)

// Kind says what a Source's URL leads to.
type Kind string

// The values of Source.Kind.
const (
	KindAuto         Kind = "auto"
	KindResourceSync Kind = "resourcesync"
	KindFeed         Kind = "feed"
)

// Size is a number of bytes, written 8MiB, 500kB or 4096.
type Size int64

// units leaves out a bare K or M, which has two meanings.
var units = []struct {
	name   string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

var errSize = errors.New("is not a size: write a whole number of bytes, or one with KiB, MiB, GiB, TiB, " +
	"kB, MB, GB or " +
	"TB, such as 8MiB")

func (s *Size) set(text string) error {
	number, factor := text, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = strings.TrimSuffix(rest, " "), u.factor
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor {
		return errSize
	}
	*s = Size(int64(n) * factor)
	return nil
}

// String writes s with the largest binary unit that divides it.
func (s Size) String() string {
	for _, u := range units[:4] {
		if s != 0 && int64(s)%u.factor == 0 {
			return strconv.FormatInt(int64(s)/u.factor, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Percent is a share in hundredths, 20 for 20%.
type Percent float64

// Share is p as a fraction, 0.2 for 20%.
func (p Percent) Share() float64 { return float64(p) / 100 }

func (p *Percent) set(text string) error {
	number, ok := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(f >= 0 && f <= 100) {
		return errors.New("is not a share: write 0% to 100%, such as 20%")
	}
	*p = Percent(f)
	return nil
}

// String writes p as it is written in the file.
func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'g', -1, 64) + "%" }

// Glob is a pattern for whole URIs, as destination.NewFilter reads it.
type Glob string

func (g *Glob) set(text string) error {
	if strings.ContainsFunc(text, notVisible) {
		return errors.New("is not a URI glob: it holds a blank or an invisible character")
	}
	if strings.HasPrefix(text, "/") {
		return errors.New("is not a URI glob: matches no URI: begin with the scheme or with **")
	}
	if _, err := destination.NewFilter([]string{text}, nil); err != nil {
		return fmt.Errorf("is not a URI glob: %w", errors.Unwrap(err))
	}
	*g = Glob(text)
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("is not a duration: write a number with its unit, such as 30s, 15m or 168h")
	}
	return d, nil
}

// durationText writes 240h, not 240h0m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if t, ok := strings.CutSuffix(text, "m0s"); ok {
		text = t + "m"
	}
	if t, ok := strings.CutSuffix(text, "h0m"); ok {
		text = t + "h"
	}
	return text
}

// quoted shows a text cut and escaped.
func quoted(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strconv.Quote(text)
}

// String is the pattern as it was written.
func (g Glob) String() string { return string(g) }
