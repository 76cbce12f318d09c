-- One row per single change worth asking about: what the run would take with it.
--
-- what          VARCHAR  scale, fix, exposed or waits, as whatif takes it.
-- kind          VARCHAR  Kind of the path's time; NULL for any.
-- rank          INTEGER  Rank; NULL for all.
-- name          VARCHAR  Kernel, operator, call or annotation; NULL for any.
-- pattern       VARCHAR  A pattern that matches the name alone; NULL for any.
-- factor        DOUBLE   By what its time is multiplied; NULL where it goes to the median, or exchanges go.
-- path_ns       BIGINT   Time of the critical paths that it could save, at most.
-- n_steps       BIGINT   Steps predicted.
-- measured_ns   BIGINT   Their time as recorded.
-- saved_ns      BIGINT   What is saved; below 0 what is lost.
-- speedup_ratio DOUBLE   Recorded over predicted.
-- verdict       VARCHAR  ok; or that it is less than the unchanged replay is off by.
--
-- Scope: predict
-- Order: saved_ns DESC, path_ns DESC, what, kind, rank, name
SELECT
    changes.what,
    changes.kind,
    changes.rank,
    changes.name,
    changes.pattern,
    changes.factor,
    changes.path_ns,
    predictions.n_steps,
    predictions.measured_ns,
    predictions.saved_ns,
    predictions.speedup_ratio,
    CASE
        WHEN abs(predictions.saved_ns) < predictions.replay_error_ratio * predictions.measured_ns
            THEN 'below the error of the unchanged replay'
        ELSE 'ok'
    END AS verdict
FROM opportunity_changes AS changes
JOIN predictions ON changes.scenario = predictions.scenario
