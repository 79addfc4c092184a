package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"resyncd/destination/safe"

	"github.com/robfig/cron/v3"
)

// Schedule is a checked cron spec, in UTC: no hour is skipped or doubled.
type Schedule struct {
	spec string
	next cron.Schedule
}

// Next is the first time after t at which s is due; the zero Schedule never is.
func (s Schedule) Next(t time.Time) time.Time {
	if s.next == nil {
		return time.Time{}
	}
	return s.next.Next(t.UTC())
}

// String is the spec as it was written.
func (s Schedule) String() string { return s.spec }

// Equal reports whether both were written alike.
func (s Schedule) Equal(o Schedule) bool { return s.spec == o.spec }

// ParseSchedule reads a cron spec of five fields or a descriptor such as @daily or @every 15m.
//
// cron/v3 panics on some input, reads time zones we do not want, turns "@every -1s" into every second and sleeps for
// ever on 31 February (dependencies.md 3.3); all of these are refused here.
func ParseSchedule(spec string) (s Schedule, err error) {
	err = safe.Do(func() (err error) {
		s, err = parseSchedule(spec)
		return err
	})
	if _, ok := errors.AsType[*safe.PanicError](err); ok {
		return Schedule{}, errors.New("is not a cron spec")
	}
	return s, err
}

func parseSchedule(spec string) (Schedule, error) {
	if len(spec) > 256 {
		return Schedule{}, errors.New("is not a cron spec: too long")
	}
	if strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=") {
		return Schedule{}, errors.New("names a time zone: schedules are in UTC, leave the zone out")
	}
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		d, err := time.ParseDuration(every)
		if err != nil || d < time.Second || d > 8760*time.Hour {
			return Schedule{}, errors.New("is not a cron spec: @every takes a duration from 1s to 8760h, such " +
				"as @every 15m")
		}
		return Schedule{spec, cron.Every(d)}, nil
	}
	if err := oddField(spec); err != nil {
		return Schedule{}, err
	}
	next, err := cron.ParseStandard(spec)
	if err != nil {
		return Schedule{}, fmt.Errorf("is not a cron spec (five fields: minute, hour, day of month, month, day of "+
			"week; or @hourly, @daily, @weekly, @monthly, @every 15m): %s",
			strings.ToValidUTF8(err.Error(), "?"))
	}
	// The library gives up after five years.
	if next.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, errors.New("is never due: no such day exists")
	}
	return Schedule{spec, next}, nil
}

// oddField refuses what cron/v3 takes silently: an empty item matches nothing, "*-x" is "*".
func oddField(spec string) error {
	for field := range strings.FieldsSeq(spec) {
		for item := range strings.SplitSeq(field, ",") {
			if item == "" || strings.HasPrefix(item, "*-") || strings.HasPrefix(item, "?-") {
				return fmt.Errorf("is not a cron spec: the field %s cannot be read", quoted(field))
			}
		}
	}
	return nil
}
