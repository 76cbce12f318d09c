-- Macro: which column of a chart a step stands in, where neighbouring steps share columns so that there are not too many.
--
-- place     BIGINT The step's place among the run's, from 0.
-- n_steps   BIGINT Steps of the run.
-- most_bins BIGINT Columns of the chart, at most.
--
-- Returns: BIGINT From 0.
place // greatest(1, (n_steps + most_bins - 1) // most_bins)
