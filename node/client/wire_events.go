package client

// Changes are jobs that came into another state, in the order in which they
// did. Seq is the commit of the last of them, and Changes those of one commit or
// of several; what one commit changed may be in several Changes.
type Changes struct {
	Seq     string   `json:"seq"` // epoch.seq, as in the header Holdfast-Seq
	Changes []Change `json:"changes"`
}

// Change is a job that came into another state. Its payload is in none of the
// events: who may see it reads the job.
type Change struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	From  string `json:"from,omitempty"` // absent: the job is new
	To    string `json:"to,omitempty"`   // absent: the job is deleted
}

// Position says where a database stands, and how much of it is in the replica:
// all commits up to ReplicatedSeq, which whoever restores epoch and TXID gets.
// Both are absent as long as nothing was uploaded.
type Position struct {
	Epoch         int64  `json:"epoch"`
	Seq           int64  `json:"seq"` // its last commit
	ReplicatedSeq *int64 `json:"replicated_seq,omitempty"`
	TXID          string `json:"txid,omitempty"` // of the last upload, as Litestream prints it
}
