package sync

import (
	"context"

	"resyncd/store"
)

// SourceStatus is one Source in `status --json`.
type SourceStatus struct {
	Name   string      `json:"name"`
	URL    string      `json:"url"`
	Paused bool        `json:"paused"`
	Sets   []SetStatus `json:"sets"`
}

// SetStatus is one set in `status --json`.
type SetStatus struct {
	ID             int64           `json:"id"`
	CapabilityList string          `json:"capability_list"`
	Position       *string         `json:"position"`
	Proven         *string         `json:"proven_position"`
	Resources      int64           `json:"resources"`
	Bytes          int64           `json:"bytes"`
	Owed           int64           `json:"owed"`
	Held           int64           `json:"held"`
	Refused        int64           `json:"refused"`
	Baselines      int64           `json:"baselines"`
	InStep         bool            `json:"in_step"`
	Problem        *string         `json:"problem"`
	Gaps           []GapStatus     `json:"gaps"`
	Channels       []ChannelStatus `json:"channels"`
	LastPull       *string         `json:"last_pull"`
	NextPull       *string         `json:"next_pull"`
}

// GapStatus is one gap in `status --json`.
type GapStatus struct {
	From     *string `json:"from"`
	Until    *string `json:"until"`
	State    string  `json:"state"`
	ClosedBy *string `json:"closed_by"`
}

// ChannelStatus is one channel in `status --json`. One-shot runs subscribe to nothing, so there are none before the
// daemon.
type ChannelStatus struct{}

// StatusOf reads how a Source stands. It needs no claim and works beside a running process.
func StatusOf(ctx context.Context, st store.Store, src *store.Source) (SourceStatus, error) {
	out := SourceStatus{Name: src.Name, URL: src.URL, Paused: src.Paused, Sets: []SetStatus{}}
	sets, err := st.Sets(ctx, src.ID)
	if err != nil {
		return out, err
	}
	for i := range sets {
		s, err := setStatus(ctx, st, &sets[i])
		if err != nil {
			return out, err
		}
		out.Sets = append(out.Sets, s)
	}
	return out, nil
}

func setStatus(ctx context.Context, st store.Store, set *store.Set) (SetStatus, error) {
	cover := Coverage{Floor: set.Floor, Proven: set.Proven, Joint: set.Joint}
	out := SetStatus{
		ID: set.ID, CapabilityList: set.CapabilityList, Position: RFC3339(cover.Position()), Proven: RFC3339(cover.ProvenPosition()),
		Resources: set.Resources, Bytes: set.Bytes, Baselines: set.Baselines, InStep: set.InStep, LastPull: RFC3339(set.LastPull),
		Gaps: []GapStatus{}, Channels: []ChannelStatus{},
	}
	if set.Problem != "" {
		out.Problem = &set.Problem
	}
	counts, err := st.Counts(ctx, set.ID)
	if err != nil {
		return out, err
	}
	out.Owed, out.Held, out.Refused = counts.Owed, counts.Held, counts.Refused
	gaps, err := st.Gaps(ctx, set.ID)
	if err != nil {
		return out, err
	}
	for _, g := range gaps {
		gs := GapStatus{From: RFC3339(g.From), Until: RFC3339(g.Until), State: string(g.State)}
		if g.ClosedBy != "" {
			gs.ClosedBy = ptr(g.ClosedBy)
		}
		out.Gaps = append(out.Gaps, gs)
		out.InStep = out.InStep && !g.State.Open()
	}
	out.InStep = out.InStep && counts.Owed == 0 && counts.Held == 0
	return out, nil
}
