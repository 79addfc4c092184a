package store

import "context"

// RequestState is a point in the life of a Request.
type RequestState string

// The states of a request.
const (
	RequestWaiting RequestState = "waiting"
	RequestTaken   RequestState = "taken"
	RequestDone    RequestState = "done"
)

// Request is a command for the daemon that holds the Sources (contract.md 1).
type Request struct {
	ID      int64
	Source  string // name, "" for all
	Command string // sync, approve, restore, renew, cancel, pause, resume, forget
	Args    []byte // JSON of the command's options
	State   RequestState
	Created Micros // local
	Beat    Micros // local; the daemon's last sign of work on it
	// Output are the lines that the command shows; Progress is the newest state of the work, JSON.
	Output   []string
	Progress []byte
	ExitCode int
	Problem  string // one sentence when ExitCode is not 0
}

// Requests carries requests from commands to the daemon and answers back. It needs no claim.
type Requests interface {
	// AddRequest records Source, Command and Args as a waiting request, and sets its ID and, if unset, Created.
	AddRequest(ctx context.Context, r *Request) error
	// TakeRequests returns the waiting requests, oldest first, and marks them as taken at now.
	TakeRequests(ctx context.Context, now Micros) ([]Request, error)
	// AnswerRequest appends lines to the output of a request and records its progress (nil:
	// unchanged) and beat; ErrNotFound if there is none.
	AnswerRequest(ctx context.Context, id int64, lines []string, progress []byte, beat Micros) error
	// EndRequest marks a request as done. ErrNotFound if there is none.
	EndRequest(ctx context.Context, id int64, exitCode int, problem string) error
	// Request returns one, or ErrNotFound; Output holds the lines from index `from` on.
	Request(ctx context.Context, id int64, from int) (Request, error)
	// DropRequest takes a request back, unless the daemon has taken it already. Unknown ids are ignored.
	DropRequest(ctx context.Context, id int64) (taken bool, err error)
}
