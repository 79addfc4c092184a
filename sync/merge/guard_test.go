package merge

import "testing"

func TestHold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		empty      bool
		gone, have int64
		guard      float64
		want       bool
	}{
		{true, 0, 100, 0.2, false},
		{true, 1, 100, 0.2, true},
		{false, 10, 10, 0.2, false},
		{false, 11, 11, 0.2, true},
		{false, 20, 100, 0.2, false},
		{false, 21, 100, 0.2, true},
		{false, 11, 1000, 0, true},
		{false, 1000, 1000, 1, false},
		{false, 1 << 40, 1 << 41, 0.2, true},
	} {
		if got := Hold(tt.empty, tt.gone, tt.have, tt.guard); got != tt.want {
			t.Errorf("Hold(%v, %d, %d, %v) = %v", tt.empty, tt.gone, tt.have, tt.guard, got)
		}
	}
}
