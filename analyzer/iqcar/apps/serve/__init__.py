"""Serves pages and a JSON API over folders of event logs.

found logs (:mod:`~iqcar.apps.serve.listing`) → what each says at its start and end
(:mod:`iqcar.logs.log_summary`) → analyses in processes of their own
(:mod:`~iqcar.apps.serve.analyses`) → kept results (:mod:`~iqcar.apps.serve.cache`) →
:mod:`~iqcar.apps.serve.api` and :mod:`~iqcar.apps.serve.pages`, behind
:mod:`~iqcar.apps.serve.guard`.
"""
