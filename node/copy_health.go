package node

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// CopyHealth is GET /v1/health of a copy in a file that no node has open, for
// one queue or, for "", all. LagMS is the age of its last commit: whether there
// were later ones the file does not know.
//
// Errors: those of [queue.InspectCopy].
func CopyHealth(ctx context.Context, path, name string) (health client.Health, err error) {
	db, err := new(copies).open(path)
	if err != nil {
		return health, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	id, err := queue.InspectCopy(ctx, db)
	if err != nil {
		return health, err
	}
	reader := queue.NewReader(func(context.Context) (*sql.DB, func(), error) { return db, func() {}, nil })
	infos, err := reader.Queues(ctx)
	if err != nil {
		return health, err
	}
	health.Replication = client.Replication{Epoch: id.Epoch, Seq: id.Seq, ReplicatedSeq: &id.Seq}
	if !id.CommittedAt.IsZero() {
		lag := max(0, time.Since(id.CommittedAt).Milliseconds())
		health.Replication.LagMS = &lag
	}
	health.Queues = []client.QueueHealth{}
	for i := range infos {
		if name == "" || name == infos[i].Name {
			health.Queues = append(health.Queues, queueHealthOf(&infos[i]))
		}
	}
	return health, nil
}
