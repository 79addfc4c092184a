package blobtest

import (
	"io"
	"testing"

	"resyncd/store/blob"
)

func stageInvisible(t *testing.T, m blob.Mirror) {
	s := staged(t, m, "not yet")
	same(t, "files while staging", tree(t, m), map[string]string{})
	same(t, "trash while staging", trashed(t, m), map[string]string{})
	if err := s.Discard(); err != nil {
		t.Fatal(err)
	}
	same(t, "files after Discard", tree(t, m), map[string]string{})
}

func stageSpare(t *testing.T, m blob.Mirror) {
	m.Spare(t.Context())
	m.Spare(t.Context())
	same(t, "files with a spare stage", tree(t, m), map[string]string{})
	first, second := staged(t, m, "first"), staged(t, m, "second")
	errs, err := m.Place(t.Context(), []blob.Placement{{Stage: first, Key: "a"}, {Stage: second, Key: "b"}})
	if err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(errs, err)
	}
	m.Spare(t.Context())
	same(t, "files", tree(t, m), map[string]string{"a": "first", "b": "second"})
}

func stageReset(t *testing.T, m blob.Mirror) {
	s := staged(t, m, "a first, long and wrong attempt")
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "seco")
	io.WriteString(s, "nd")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := io.WriteString(s, "late")
	wantErr(t, "Write after Close", err, blob.ErrStage)
	// A closed stage may be begun again, too.
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "third")
	errs, err := m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "k"}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	want(t, m, "k", "third")
}

func stageEnds(t *testing.T, m blob.Mirror) {
	s := staged(t, m, "x")
	for range 2 {
		if err := s.Discard(); err != nil {
			t.Fatalf("Discard: %v", err)
		}
	}
	_, err := io.WriteString(s, "y")
	wantErr(t, "Write after Discard", err, blob.ErrStage)
	wantErr(t, "Reset after Discard", s.Reset(), blob.ErrStage)
	errs, _ := m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "k"}})
	wantErr(t, "Place after Discard", errs[0], blob.ErrStage)

	s = staged(t, m, "placed")
	if errs, err := m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "k"}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if err := s.Discard(); err != nil {
		t.Fatalf("Discard after Place: %v", err)
	}
	want(t, m, "k", "placed")
	errs, _ = m.Place(t.Context(), []blob.Placement{{Stage: s, Key: "l"}, {Stage: nil, Key: "n"}})
	wantErr(t, "Place a second time", errs[0], blob.ErrStage)
	wantErr(t, "Place nothing", errs[1], blob.ErrStage)
	same(t, "files", tree(t, m), map[string]string{"k": "placed"})
}
